// What kernels_avx512*.cpp includes in the place of immintrin.h when it is built for the test on SIMDe: SIMDe, and the
// intrinsics that Debian's version (0.7.4) lacks, written as loops.
#pragma once
#define SIMDE_ENABLE_NATIVE_ALIASES
#include <simde/x86/avx512.h>
#include <simde/x86/f16c.h>
#include <simde/x86/fma.h>

#include <cstring>

namespace jal::emu::simde_gap {

/// n elements widened from From to To by value.
template <class To, class From, class Out, class In>
inline Out widen(In in) {
  From source[sizeof(In) / sizeof(From)];
  To target[sizeof(Out) / sizeof(To)];
  std::memcpy(source, &in, sizeof in);
  for (std::size_t i = 0; i < sizeof(Out) / sizeof(To); ++i) target[i] = static_cast<To>(source[i]);
  Out out;
  std::memcpy(&out, target, sizeof out);
  return out;
}

inline __m512 maskz_loadu_ps(unsigned mask, const float* p) {
  float values[16] = {};
  for (unsigned i = 0; i < 16; ++i) {
    if ((mask >> i & 1u) != 0) values[i] = p[i];
  }
  __m512 out;
  std::memcpy(&out, values, sizeof out);
  return out;
}

inline void mask_storeu_ps(float* p, unsigned mask, __m512 v) {
  float values[16];
  std::memcpy(values, &v, sizeof v);
  for (unsigned i = 0; i < 16; ++i) {
    if ((mask >> i & 1u) != 0) p[i] = values[i];
  }
}

inline __m512 shuffle_f32x4(__m512 a, __m512 b, int imm) {
  float x[16];
  float y[16];
  float out[16];
  std::memcpy(x, &a, sizeof a);
  std::memcpy(y, &b, sizeof b);
  for (int i = 0; i < 4; ++i) std::memcpy(out + i * 4, (i < 2 ? x : y) + (imm >> (2 * i) & 3) * 4, 16);
  __m512 result;
  std::memcpy(&result, out, sizeof result);
  return result;
}

/// Bit i: holds(element i of a, element i of b).
template <class Element, class Vector, class Holds>
inline unsigned mask_of(Vector a, Vector b, Holds holds) {
  constexpr unsigned kElements = sizeof(Vector) / sizeof(Element);
  Element x[kElements];
  Element y[kElements];
  std::memcpy(x, &a, sizeof a);
  std::memcpy(y, &b, sizeof b);
  unsigned mask = 0;
  for (unsigned i = 0; i < kElements; ++i) mask |= holds(x[i], y[i]) ? 1u << i : 0u;
  return mask;
}

inline unsigned cmplt_epu16_mask(__m512i a, __m512i b) {
  return mask_of<unsigned short>(a, b, [](unsigned x, unsigned y) { return x < y; });
}

/// testn of elements of either size.
template <class Element, class Vector>
inline unsigned testn_mask(Vector a, Vector b) {
  return mask_of<Element>(a, b, [](unsigned x, unsigned y) { return (x & y) == 0; });
}

}  // namespace jal::emu::simde_gap

#define _mm512_cvtepu16_epi32(a) (jal::emu::simde_gap::widen<int, unsigned short, __m512i>(a))
#define _mm512_maskz_loadu_ps(k, p) (jal::emu::simde_gap::maskz_loadu_ps(k, p))
#define _mm512_mask_storeu_ps(p, k, v) (jal::emu::simde_gap::mask_storeu_ps(p, k, v))
#define _mm512_shuffle_f32x4(a, b, imm) (jal::emu::simde_gap::shuffle_f32x4(a, b, imm))
#define _mm256_testn_epi8_mask(a, b) (jal::emu::simde_gap::testn_mask<unsigned char>(a, b))
#define _mm512_testn_epi16_mask(a, b) (jal::emu::simde_gap::testn_mask<unsigned short>(a, b))
#define _mm512_cmplt_epu16_mask(a, b) (jal::emu::simde_gap::cmplt_epu16_mask(a, b))
#define _mm512_mask_sub_epi16(src, k, a, b) (_mm512_mask_mov_epi16(src, k, _mm512_sub_epi16(a, b)))
