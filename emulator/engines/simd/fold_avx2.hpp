// Folds and transpositions on 256-bit registers, shared by the AVX2 and the AVX-512 kernels.
//
// What it is not: free of an instruction set: include it only in files compiled for AVX2 or more.
// Invariant: everything is inlined, so that no code of one instruction set is linked into another's.
#pragma once
#include <immintrin.h>

#include <cstddef>
#include <cstdint>

// Builds under a sanitizer or on SIMDe keep fewer rows in registers: each row count is minutes of compilation there.
// A macro, because the two builds meet in one test program.
#if defined(JAL_ENGINE_SIMDE) || defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  #define JAL_ENGINE_ROWS(usual) 3
#else
  #define JAL_ENGINE_ROWS(usual) (usual)
#endif

/// Before a loop over accumulators: they stay in registers only when it is unrolled whole.
#define JAL_UNROLL _Pragma("GCC unroll 32")

namespace jal::emu {

/// Steps l + 4, l + 2, l + 1 of the fold on eight lanes.
[[gnu::always_inline]] inline float fold_half_sum(__m256 v) {
  __m128 s = _mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
  s = _mm_add_ps(s, _mm_movehl_ps(s, s));
  s = _mm_add_ss(s, _mm_shuffle_ps(s, s, 1));
  return _mm_cvtss_f32(s);
}

/// The same with "x > m ? x : m", x being the upper lane.
[[gnu::always_inline]] inline float fold_half_max(__m256 v) {
  __m128 s = _mm_max_ps(_mm256_extractf128_ps(v, 1), _mm256_castps256_ps128(v));
  s = _mm_max_ps(_mm_movehl_ps(s, s), s);
  s = _mm_max_ss(_mm_shuffle_ps(s, s, 1), s);
  return _mm_cvtss_f32(s);
}

/// Eight vectors of eight lanes, each folded to one value: result lane p is the fold of h[p].
[[gnu::always_inline]] inline __m256 fold_half_8(const __m256* h) {
  const auto halves = [](__m256 a, __m256 b) {
    return _mm256_add_ps(_mm256_permute2f128_ps(a, b, 0x20), _mm256_permute2f128_ps(a, b, 0x31));
  };
  const auto pairs = [](__m256 a, __m256 b) {
    return _mm256_add_ps(_mm256_shuffle_ps(a, b, 0x44), _mm256_shuffle_ps(a, b, 0xee));
  };
  const __m256 a = pairs(halves(h[0], h[4]), halves(h[1], h[5]));
  const __m256 b = pairs(halves(h[2], h[6]), halves(h[3], h[7]));
  return _mm256_add_ps(_mm256_shuffle_ps(a, b, 0x88), _mm256_shuffle_ps(a, b, 0xdd));
}

/// The tree over eight panels for eight rows: result lane r is ((s0+s1)+(s2+s3)) + ((s4+s5)+(s6+s7)) of row r.
[[gnu::always_inline]] inline __m256 tree_rows_8(const float* sums) {
  const __m256 a = _mm256_hadd_ps(_mm256_hadd_ps(_mm256_loadu_ps(sums), _mm256_loadu_ps(sums + 8)),
                                  _mm256_hadd_ps(_mm256_loadu_ps(sums + 16), _mm256_loadu_ps(sums + 24)));
  const __m256 b = _mm256_hadd_ps(_mm256_hadd_ps(_mm256_loadu_ps(sums + 32), _mm256_loadu_ps(sums + 40)),
                                  _mm256_hadd_ps(_mm256_loadu_ps(sums + 48), _mm256_loadu_ps(sums + 56)));
  return _mm256_add_ps(_mm256_permute2f128_ps(a, b, 0x20), _mm256_permute2f128_ps(a, b, 0x31));
}

/// Transposes an 8 x 8 matrix of dwords: row i at rows[i], column c to out[c].
[[gnu::always_inline]] inline void transpose_8x8(const __m256* row, __m256* out) {
  const auto lo = [](__m256 a, __m256 b) { return _mm256_unpacklo_ps(a, b); };
  const auto hi = [](__m256 a, __m256 b) { return _mm256_unpackhi_ps(a, b); };
  const __m256 a0 = lo(row[0], row[1]), a1 = hi(row[0], row[1]), a2 = lo(row[2], row[3]), a3 = hi(row[2], row[3]);
  const __m256 a4 = lo(row[4], row[5]), a5 = hi(row[4], row[5]), a6 = lo(row[6], row[7]), a7 = hi(row[6], row[7]);
  const __m256 b0 = _mm256_shuffle_ps(a0, a2, 0x44), b1 = _mm256_shuffle_ps(a0, a2, 0xee);
  const __m256 b2 = _mm256_shuffle_ps(a1, a3, 0x44), b3 = _mm256_shuffle_ps(a1, a3, 0xee);
  const __m256 b4 = _mm256_shuffle_ps(a4, a6, 0x44), b5 = _mm256_shuffle_ps(a4, a6, 0xee);
  const __m256 b6 = _mm256_shuffle_ps(a5, a7, 0x44), b7 = _mm256_shuffle_ps(a5, a7, 0xee);
  out[0] = _mm256_permute2f128_ps(b0, b4, 0x20);
  out[1] = _mm256_permute2f128_ps(b1, b5, 0x20);
  out[2] = _mm256_permute2f128_ps(b2, b6, 0x20);
  out[3] = _mm256_permute2f128_ps(b3, b7, 0x20);
  out[4] = _mm256_permute2f128_ps(b0, b4, 0x31);
  out[5] = _mm256_permute2f128_ps(b1, b5, 0x31);
  out[6] = _mm256_permute2f128_ps(b2, b6, 0x31);
  out[7] = _mm256_permute2f128_ps(b3, b7, 0x31);
}

}  // namespace jal::emu
