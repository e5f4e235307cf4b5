// MX quantisation by integer arithmetic on FP32 patterns; no rounding mode, no library.
#include "emulator/engines/quantize.hpp"

#include "emulator/engines/bracket.hpp"
#include "jal/kernel/math.hpp"

namespace jal::emu {
namespace {

using kernel::bits_of;
using kernel::float_of;

/// Exponent s of RCEIL: the smallest with amax <= largest * 2^s, where largest = 1.x * 2^emax and its mantissa bits
/// are `limit`. amax is finite and positive.
int rceil_exponent(std::uint32_t amax_bits, int emax, std::uint32_t limit) {
  if ((amax_bits & 0x7f800000u) == 0) {
    // A denormal: amax < 2^-126, far below every scale the format can name times its largest value.
    return -127;
  }
  const int exponent = static_cast<int>(amax_bits >> 23) - 127;
  const int s = exponent - emax + ((amax_bits & 0x7fffffu) > limit ? 1 : 0);
  return s < -127 ? -127 : s;
}

/// 2^-s for s in [-127, 127].
float inverse_scale(int s) {
  if (s == 127) return float_of(0x00400000u);
  return float_of(static_cast<std::uint32_t>(127 - s) << 23);
}

/// Rounds |x| to a minifloat of `mantissa` bits whose smallest normal is 2^emin; returns its code without sign.
std::uint32_t round_code(std::uint32_t magnitude, int mantissa, int emin, std::uint32_t largest) {
  const int exponent = static_cast<int>(magnitude >> 23) - 127;
  if (exponent < emin - mantissa - 1) return 0;
  std::uint32_t significand = (magnitude & 0x7fffffu) | 0x800000u;
  // Bits below the last place of the result; more of them for the result's denormals.
  const int drop = 23 - mantissa + (exponent < emin ? emin - exponent : 0);
  const std::uint32_t half = 1u << (drop - 1);
  const std::uint32_t rest = significand & ((1u << drop) - 1u);
  std::uint32_t code = significand >> drop;
  if (rest > half || (rest == half && (code & 1u) != 0)) ++code;
  // A normal result carries its implicit one in `code`: adding (exponent - emin) steps of 2^mantissa gives the pattern.
  if (exponent >= emin) code += static_cast<std::uint32_t>(exponent - emin) << mantissa;
  return code > largest ? largest : code;
}

/// Largest magnitude of a block as FP32 bits; above 0x7f7fffff when one is not finite.
std::uint32_t block_amax(const float* x, std::uint32_t n) {
  std::uint32_t amax = 0;
  for (std::uint32_t i = 0; i < n; ++i) {
    const std::uint32_t bits = bits_of(x[i]) & 0x7fffffffu;
    if (bits > amax) amax = bits;
  }
  return amax;
}

/// Scale byte of a block, and the factor its elements are multiplied with (0 for a block of NaN or of zeros).
std::uint8_t block_scale(std::uint32_t amax, int emax, std::uint32_t limit, float* factor) {
  *factor = 0.0f;
  if (amax > 0x7f7fffffu) return 255;
  if (amax == 0) return 0;
  const int s = rceil_exponent(amax, emax, limit);
  *factor = inverse_scale(s);
  return static_cast<std::uint8_t>(s + 127);
}

}  // namespace

std::uint8_t e4m3_from_f32(float x) {
  const std::uint32_t bits = bits_of(x);
  if (kernel::is_nan(x)) return 0x7f;
  return static_cast<std::uint8_t>((bits >> 31 << 7) | round_code(bits & 0x7fffffffu, 3, -6, 0x7e));
}

std::uint8_t e2m1_from_f32(float x) {
  const std::uint32_t bits = bits_of(x);
  if (kernel::is_nan(x)) return 0;
  return static_cast<std::uint8_t>((bits >> 31 << 3) | round_code(bits & 0x7fffffffu, 1, 0, 7));
}

void quantize_mxfp8(const float* x, std::uint32_t k, std::uint8_t* codes, std::uint8_t* scales) {
  for (std::uint32_t b = 0; b < block_count(k); ++b) {
    const std::uint32_t begin = b * kBlockElements;
    const std::uint32_t n = k - begin < kBlockElements ? k - begin : kBlockElements;
    float factor = 0.0f;
    scales[b] = block_scale(block_amax(x + begin, n), 8, 0x600000u, &factor);
    for (std::uint32_t i = 0; i < kBlockElements; ++i) {
      const bool used = i < n && factor != 0.0f;
      codes[begin + i] = used ? e4m3_from_f32(x[begin + i] * factor) : std::uint8_t{0};
    }
  }
}

void quantize_mxfp4(const float* x, std::uint32_t k, std::uint8_t* codes, std::uint8_t* scales) {
  for (std::uint32_t b = 0; b < block_count(k); ++b) {
    const std::uint32_t begin = b * kBlockElements;
    const std::uint32_t n = k - begin < kBlockElements ? k - begin : kBlockElements;
    float factor = 0.0f;
    scales[b] = block_scale(block_amax(x + begin, n), 2, 0x400000u, &factor);
    for (std::uint32_t i = 0; i < kBlockElements; i += 2) {
      unsigned pair = 0;
      if (i < n && factor != 0.0f) pair = e2m1_from_f32(x[begin + i] * factor);
      if (i + 1 < n && factor != 0.0f) pair |= static_cast<unsigned>(e2m1_from_f32(x[begin + i + 1] * factor)) << 4;
      codes[(begin + i) / 2] = static_cast<std::uint8_t>(pair);
    }
  }
}

float f32_from_e4m3(std::uint8_t code) {
  const unsigned magnitude = code & 0x7fu;
  if (magnitude == 0x7f) return float_of(kernel::kNanBits);
  const float value =
      magnitude < 8 ? static_cast<float>(magnitude) * 0x1p-9f : float_of((magnitude << 20) + (120u << 23));
  return float_of(bits_of(value) | static_cast<std::uint32_t>(code & 0x80u) << 24);
}

float f32_from_e2m1(std::uint8_t code) {
  static constexpr float kValues[8] = {0.0f, 0.5f, 1.0f, 1.5f, 2.0f, 3.0f, 4.0f, 6.0f};
  return float_of(bits_of(kValues[code & 7u]) | static_cast<std::uint32_t>(code & 8u) << 28);
}

float f32_from_e8m0(std::uint8_t scale) {
  if (scale == 0) return float_of(0x00400000u);
  if (scale == 255) return float_of(kernel::kNanBits);
  return float_of(static_cast<std::uint32_t>(scale) << 23);
}

}  // namespace jal::emu
