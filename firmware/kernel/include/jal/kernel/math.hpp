// Scalar mathematics of kernels and engines: BF16 conversions, fused multiply-add, exp, square root, sine and cosine.
//
// What it is not: a libm. It holds what the engines' definition names, and nothing else; every function gives the same
// bits on every target because each rounding is written down (no contraction, no library call, no table).
// Invariant: freestanding C++20; includes nothing but <stdint.h>; works on rv64imac, where floats are software.
// Contract: docs/engine_numerics.md, sections "Vector functions" and "Tables".
#pragma once
#include <stdint.h>

#define JAL_KERNEL_INLINE [[gnu::always_inline]] inline

namespace jal::kernel {

/// The one NaN that engines write; whatever NaN comes in, this one comes out.
inline constexpr uint32_t kNanBits = 0x7fc00000u;

JAL_KERNEL_INLINE uint32_t bits_of(float x) { return __builtin_bit_cast(uint32_t, x); }
JAL_KERNEL_INLINE float float_of(uint32_t bits) { return __builtin_bit_cast(float, bits); }
JAL_KERNEL_INLINE uint64_t bits_of(double x) { return __builtin_bit_cast(uint64_t, x); }
JAL_KERNEL_INLINE double double_of(uint64_t bits) { return __builtin_bit_cast(double, bits); }
JAL_KERNEL_INLINE bool is_nan(float x) { return (bits_of(x) & 0x7fffffffu) > 0x7f800000u; }
JAL_KERNEL_INLINE float canonical(float x) { return is_nan(x) ? float_of(kNanBits) : x; }

/// BF16 to FP32: exact.
JAL_KERNEL_INLINE float f32_from_bf16(uint16_t x) { return float_of(static_cast<uint32_t>(x) << 16); }

/// FP32 to BF16, round to nearest even; denormals are kept, overflow becomes infinity, every NaN becomes 0x7fc0.
JAL_KERNEL_INLINE uint16_t bf16_from_f32(float x) {
  const uint32_t bits = bits_of(x);
  if (is_nan(x)) return 0x7fc0;
  return static_cast<uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}

/// a * b + c rounded to odd in double: the last bit of the double is sticky, so that one more rounding to FP32 is
/// exact. The product of two FP32 is exact in double; the sum's error comes from Knuth's two-sum.
JAL_KERNEL_INLINE double fma_to_odd(float a, float b, float c) {
  const double p = static_cast<double>(a) * static_cast<double>(b);
  const double d = static_cast<double>(c);
  const double s = p + d;
  const double t = s - p;
  const double err = (p - (s - t)) + (d - t);
  uint64_t bits = bits_of(s);
  const bool finite = (bits & 0x7ff0000000000000ull) != 0x7ff0000000000000ull;
  if (finite && err != 0.0 && (bits & 1u) == 0) {
    // The exact value lies beside s: step to the odd neighbour on its side.
    if ((err > 0.0) == (s > 0.0)) {
      bits += 1;
    } else {
      bits -= 1;
    }
  }
  return double_of(bits);
}

/// Fused multiply-add in FP32, one rounding to nearest even, denormals kept.
JAL_KERNEL_INLINE float fma_f32(float a, float b, float c) {
#if defined(__FMA__) || defined(__AVX512F__)
  return __builtin_fmaf(a, b, c);
#else
  return static_cast<float>(fma_to_odd(a, b, c));
#endif
}

/// Square root, correctly rounded. Negative numbers give NaN, -0 gives -0.
JAL_KERNEL_INLINE float sqrt_f32(float x) {
  uint32_t bits = bits_of(x);
  if (is_nan(x) || (bits >> 31 && bits != 0x80000000u)) return float_of(kNanBits);
  if ((bits & 0x7fffffffu) == 0 || bits == 0x7f800000u) return x;
  int32_t exponent = static_cast<int32_t>(bits >> 23);
  uint64_t fraction = bits & 0x7fffffu;
  if (exponent == 0) {
    exponent = 1;
    while ((fraction & 0x800000u) == 0) {
      fraction <<= 1;
      --exponent;
    }
  } else {
    fraction |= 0x800000u;
  }
  int32_t e = exponent - 127;
  // value = fraction * 2^(e - 23); make e even, then take the integer root of fraction * 2^25 (or 2^26): 25 bits with a
  // guard bit, and a remainder that is sticky.
  uint64_t radicand = fraction << 25;
  if (e & 1) {
    radicand <<= 1;
    e -= 1;
  }
  uint64_t root = 0;
  for (int i = 24; i >= 0; --i) {
    const uint64_t trial = root | (1ull << i);
    if (trial * trial <= radicand) root = trial;
  }
  const bool sticky = root * root != radicand;
  uint64_t mantissa = root >> 1;
  if ((root & 1u) && (sticky || (mantissa & 1u))) ++mantissa;
  return float_of(static_cast<uint32_t>((e / 2 + 127) << 23) + static_cast<uint32_t>(mantissa - 0x800000u));
}

/// 1 / sqrt(x): a correctly rounded square root, then a correctly rounded division (two roundings).
JAL_KERNEL_INLINE float rsqrt_f32(float x) { return canonical(1.0f / sqrt_f32(x)); }

// exp: x = n ln2 + r, |r| <= ln2 / 2, exp(r) by a polynomial of degree 7 (coefficients of Cephes expf, S. L. Moshier).
inline constexpr float kExpUpper = 88.72283f;  ///< above: +infinity
inline constexpr float kExpLower = -87.33f;    ///< below: +0 (no denormal result)
inline constexpr float kLog2E = 1.44269504f;
inline constexpr float kRoundMagic = 12582912.0f;  ///< 1.5 * 2^23: adding it rounds to an integer, to nearest even
inline constexpr float kLn2High = 0.693359375f;
inline constexpr float kLn2Low = -2.12194440e-4f;
inline constexpr float kExpP0 = 1.9875691500e-4f;
inline constexpr float kExpP1 = 1.3981999507e-3f;
inline constexpr float kExpP2 = 8.3334519073e-3f;
inline constexpr float kExpP3 = 4.1665795894e-2f;
inline constexpr float kExpP4 = 1.6666665459e-1f;
inline constexpr float kExpP5 = 5.0000001201e-1f;

/// exp(x) in FP32; the largest error is stated and tested in docs/engine_numerics.md. NaN gives NaN.
JAL_KERNEL_INLINE float exp_f32(float x) {
  if (is_nan(x)) return float_of(kNanBits);
  if (x > kExpUpper) return float_of(0x7f800000u);
  if (x < kExpLower) return 0.0f;
  const float shifted = fma_f32(x, kLog2E, kRoundMagic);
  const float n = shifted - kRoundMagic;
  float r = fma_f32(n, -kLn2High, x);
  r = fma_f32(n, -kLn2Low, r);
  float p = kExpP0;
  p = fma_f32(p, r, kExpP1);
  p = fma_f32(p, r, kExpP2);
  p = fma_f32(p, r, kExpP3);
  p = fma_f32(p, r, kExpP4);
  p = fma_f32(p, r, kExpP5);
  const float y = fma_f32(p, r * r, r) + 1.0f;
  // The low bits of `shifted` hold n in two's complement above the magic constant's own pattern.
  const uint32_t exponent = (bits_of(shifted) - bits_of(kRoundMagic)) << 23;
  return float_of(bits_of(y) + exponent);
}

/// x / (1 + exp(-x)), division correctly rounded.
JAL_KERNEL_INLINE float silu_f32(float x) { return canonical(x / (1.0f + exp_f32(-x))); }

// Double precision, for tables only (never in an inner loop): plain multiplications and additions in a fixed order.

/// exp(x) in double, |x| < 700: n ln2 taken out in two parts, then the Taylor series to degree 13.
inline double exp_f64(double x) {
  const double magic = 6755399441055744.0;  // 1.5 * 2^52
  const double shifted = x * 1.4426950408889634 + magic;
  const double n = shifted - magic;
  const double r = (x - n * 0.693147180369123816490) - n * 1.90821492927058770002e-10;
  double sum = 1.0;
  for (int i = 13; i >= 1; --i) sum = 1.0 + sum * r / static_cast<double>(i);
  const int64_t exponent = static_cast<int64_t>(bits_of(shifted) - bits_of(magic));
  return double_of(bits_of(sum) + (static_cast<uint64_t>(exponent) << 52));
}

/// ln(x) in double for normal x > 0: mantissa in [sqrt(1/2), sqrt(2)), then 2 atanh((m - 1) / (m + 1)) as a series.
inline double log_f64(double x) {
  const uint64_t bits = bits_of(x);
  int64_t e = static_cast<int64_t>(bits >> 52) - 1023;
  double m = double_of((bits & 0x000fffffffffffffull) | 0x3ff0000000000000ull);
  if (m > 1.4142135623730951) {
    m *= 0.5;
    e += 1;
  }
  const double s = (m - 1.0) / (m + 1.0);
  const double z = s * s;
  double sum = 0.0;
  for (int i = 25; i >= 1; i -= 2) sum = sum * z + 1.0 / static_cast<double>(i);
  const double n = static_cast<double>(e);
  return n * 0.693147180369123816490 + (2.0 * s * sum + n * 1.90821492927058770002e-10);
}

/// sin(x) and cos(x) in double for |x| <= 2^30: pi/2 taken out in three parts (fdlibm's split), then Taylor series to
/// degree 18. Absolute error below 1e-15 up to |x| = 2^20 and below 1e-7 at the end of the range (tested).
inline void sincos_f64(double x, double* out_sin, double* out_cos) {
  const double magic = 6755399441055744.0;
  const double shifted = x * 0.63661977236758134308 + magic;
  const double n = shifted - magic;
  const double r =
      ((x - n * 1.57079632673412561417e+00) - n * 6.07710050630396597660e-11) - n * 2.02226624879595063154e-21;
  const double z = r * r;
  double s = 1.0;
  for (int i = 17; i >= 3; i -= 2) s = 1.0 - s * z / static_cast<double>(i * (i - 1));
  s *= r;
  double c = 1.0;
  for (int i = 18; i >= 2; i -= 2) c = 1.0 - c * z / static_cast<double>(i * (i - 1));
  switch (bits_of(shifted) & 3u) {
    case 0:
      *out_sin = s;
      *out_cos = c;
      break;
    case 1:
      *out_sin = c;
      *out_cos = -s;
      break;
    case 2:
      *out_sin = -s;
      *out_cos = -c;
      break;
    default:
      *out_sin = -c;
      *out_cos = s;
      break;
  }
}

/// Row of a rotary table: cos and sin of position * base^(-2 i / head_dim), i in [0, head_dim / 2), in double, rounded
/// to FP32 once. base > 0 (10000, 100000, 150000); position < 2^20.
inline void rope_table_row(uint32_t position, double base, uint32_t head_dim, float* out_cos, float* out_sin) {
  const double log_base = log_f64(base);
  for (uint32_t i = 0; i < head_dim / 2; ++i) {
    const double frequency = exp_f64(-2.0 * static_cast<double>(i) / static_cast<double>(head_dim) * log_base);
    double s = 0.0;
    double c = 0.0;
    sincos_f64(static_cast<double>(position) * frequency, &s, &c);
    out_cos[i] = static_cast<float>(c);
    out_sin[i] = static_cast<float>(s);
  }
}

}  // namespace jal::kernel
