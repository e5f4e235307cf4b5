// Sixteen FP32 lanes as two AVX2 registers, with the decoders of weight blocks. For kernels_avx2.cpp only.
//
// What it is not: an interface; it is the Arch parameter of the kernels in matrix_simd.hpp and its siblings.
// Invariant: lane l of V is virtual lane l of the engine.
#pragma once
#include <immintrin.h>

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "emulator/engines/kernels.hpp"
#include "emulator/engines/mx_tables.hpp"
#include "emulator/engines/simd/fold_avx2.hpp"

namespace jal::emu::avx2 {

#define JAL_INLINE [[gnu::always_inline]] inline

struct Arch {
  struct V {
    __m256 lo, hi;
  };
  static constexpr OperandLayout kScaledLayout = OperandLayout::scaled_f32;  ///< "zipped" is the natural order here
  static constexpr bool kHasQuickMxfp8 = true;                               ///< there is decode_mxfp8_quick()
  static constexpr bool kFoldsEarly = false;  ///< there is RowFold; sixteen registers are too few
  static constexpr int kGemvRows = 2;
  static constexpr int kMaxRows = JAL_ENGINE_ROWS(6);  ///< 12 accumulators, 2 tokens, 1 weight: 15 of 16 registers
  static constexpr int kTokenVectors = 1;
  static constexpr int kValueRows = 3;  ///< attention, P V: 3 rows x 32 dimensions
  static constexpr int kValueVectors = 2;

  JAL_INLINE static V zero() { return {_mm256_setzero_ps(), _mm256_setzero_ps()}; }
  JAL_INLINE static V set1(float x) { return {_mm256_set1_ps(x), _mm256_set1_ps(x)}; }
  JAL_INLINE static V broadcast(const void* p) {
    const __m256 v = _mm256_broadcast_ss(static_cast<const float*>(p));
    return {v, v};
  }
  JAL_INLINE static V load(const void* p) {
    const float* f = static_cast<const float*>(p);
    return {_mm256_loadu_ps(f), _mm256_loadu_ps(f + 8)};
  }
  JAL_INLINE static void store(float* p, V v) {
    _mm256_storeu_ps(p, v.lo);
    _mm256_storeu_ps(p + 8, v.hi);
  }
  JAL_INLINE static V load_n(const float* p, std::size_t n) {
    alignas(32) float buffer[16] = {};
    std::memcpy(buffer, p, n * sizeof(float));
    return load(buffer);
  }
  JAL_INLINE static void store_n(float* p, V v, std::size_t n) {
    alignas(32) float buffer[16];
    store(buffer, v);
    std::memcpy(p, buffer, n * sizeof(float));
  }
  JAL_INLINE static V add(V a, V b) { return {_mm256_add_ps(a.lo, b.lo), _mm256_add_ps(a.hi, b.hi)}; }
  JAL_INLINE static V sub(V a, V b) { return {_mm256_sub_ps(a.lo, b.lo), _mm256_sub_ps(a.hi, b.hi)}; }
  JAL_INLINE static V mul(V a, V b) { return {_mm256_mul_ps(a.lo, b.lo), _mm256_mul_ps(a.hi, b.hi)}; }
  JAL_INLINE static V div(V a, V b) { return {_mm256_div_ps(a.lo, b.lo), _mm256_div_ps(a.hi, b.hi)}; }
  JAL_INLINE static V fma(V a, V b, V c) {
    return {_mm256_fmadd_ps(a.lo, b.lo, c.lo), _mm256_fmadd_ps(a.hi, b.hi, c.hi)};
  }
  /// x > m ? x : m, also for NaN and zeros.
  JAL_INLINE static V max_gt(V x, V m) { return {_mm256_max_ps(x.lo, m.lo), _mm256_max_ps(x.hi, m.hi)}; }
  /// a > b ? t : f.
  JAL_INLINE static V select_gt(V a, V b, V t, V f) {
    return {_mm256_blendv_ps(f.lo, t.lo, _mm256_cmp_ps(a.lo, b.lo, _CMP_GT_OQ)),
            _mm256_blendv_ps(f.hi, t.hi, _mm256_cmp_ps(a.hi, b.hi, _CMP_GT_OQ))};
  }
  /// x is NaN ? the canonical NaN : f.
  JAL_INLINE static V select_nan(V x, V f) {
    const __m256 nan = _mm256_castsi256_ps(_mm256_set1_epi32(0x7fc00000));
    return {_mm256_blendv_ps(f.lo, nan, _mm256_cmp_ps(x.lo, x.lo, _CMP_UNORD_Q)),
            _mm256_blendv_ps(f.hi, nan, _mm256_cmp_ps(x.hi, x.hi, _CMP_UNORD_Q))};
  }
  JAL_INLINE static V negate(V x) {
    const __m256 sign = _mm256_set1_ps(-0.0f);
    return {_mm256_xor_ps(x.lo, sign), _mm256_xor_ps(x.hi, sign)};
  }
  /// Adds the integer that `shifted` holds above `magic` to the exponent of y (see exp_f32).
  JAL_INLINE static V add_exponent(V y, V shifted, V magic) {
    return {add_exponent_half(y.lo, shifted.lo, magic.lo), add_exponent_half(y.hi, shifted.hi, magic.hi)};
  }
  /// Lanes below n keep x, the others become `other`.
  JAL_INLINE static V keep_below(V x, std::uint32_t n, V other) {
    const __m256i limit = _mm256_set1_epi32(static_cast<int>(n));
    const __m256i index = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    const __m256 low = _mm256_castsi256_ps(_mm256_cmpgt_epi32(limit, index));
    const __m256 high = _mm256_castsi256_ps(_mm256_cmpgt_epi32(limit, _mm256_add_epi32(index, _mm256_set1_epi32(8))));
    return {_mm256_blendv_ps(other.lo, x.lo, low), _mm256_blendv_ps(other.hi, x.hi, high)};
  }
  JAL_INLINE static float fold_sum(V v) { return fold_half_sum(_mm256_add_ps(v.lo, v.hi)); }
  JAL_INLINE static float fold_max(V v) { return fold_half_max(_mm256_max_ps(v.hi, v.lo)); }
  /// What is kept of a panel until the fold of all eight: here already lanes l + 8 added onto l.
  using Half = __m256;
  JAL_INLINE static Half half(V v) { return _mm256_add_ps(v.lo, v.hi); }
  template <bool kZipped>
  JAL_INLINE static __m256 fold_8(const Half* panels) {
    return fold_half_8(panels);
  }

  /// Sixteen even and odd pairs (x0, x1, ...) to two vectors.
  JAL_INLINE static void deinterleave(const float* p, V& even, V& odd) {
    deinterleave_half(p, even.lo, odd.lo);
    deinterleave_half(p + 16, even.hi, odd.hi);
  }
  JAL_INLINE static void interleave(float* p, V even, V odd) {
    interleave_half(p, even.lo, odd.lo);
    interleave_half(p + 16, even.hi, odd.hi);
  }
  /// Rounded to BF16, still FP32 (the low half zero); NaN canonical.
  JAL_INLINE static V round_bf16(V v) {
    return {_mm256_castsi256_ps(_mm256_slli_epi32(bf16_bits(v.lo), 16)),
            _mm256_castsi256_ps(_mm256_slli_epi32(bf16_bits(v.hi), 16))};
  }
  /// Natural lane order to the order of this Arch's scaled operands.
  JAL_INLINE static V zip(V v) { return v; }
  /// Values with a zero low half, as BF16 pairs in dwords.
  JAL_INLINE static V pack_pairs(V even, V odd) { return {pack_half(even.lo, odd.lo), pack_half(even.hi, odd.hi)}; }
  JAL_INLINE static void store_bf16(std::uint16_t* p, V v) {
    const __m256i lo = bf16_bits(v.lo);
    const __m256i hi = bf16_bits(v.hi);
    const __m256i packed = _mm256_permute4x64_epi64(_mm256_packus_epi32(lo, hi), 0xd8);
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), packed);
  }
  JAL_INLINE static V load_bf16(const std::uint16_t* p) {
    const __m128i* q = reinterpret_cast<const __m128i*>(p);
    return {_mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(_mm_loadu_si128(q)), 16)),
            _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(_mm_loadu_si128(q + 1)), 16))};
  }

  // Weight blocks to odd and even elements of the 16 lanes; MX ones as w' (mx_tables.hpp), e being the scale byte.
  JAL_INLINE static void decode_bf16(const std::uint8_t* p, V& odd, V& even) {
    split_pairs(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)), odd.lo, even.lo);
    split_pairs(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p + 32)), odd.hi, even.hi);
  }
  JAL_INLINE static void decode_bf16_zipped(const std::uint8_t* p, V& odd, V& even) { decode_bf16(p, odd, even); }
  JAL_INLINE static void decode_mxfp8(const std::uint8_t* p, std::uint32_t e, V& odd, V& even) {
    const V factor = broadcast(&kMxTables.factor[e]);
    even = mul(e4m3_to_f32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p))), factor);
    odd = mul(e4m3_to_f32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p + 16))), factor);
  }
  /// The same for scale bytes up to kMaxQuickScale, a third faster: the code's exponent and mantissa moved into an
  /// FP32, whose denormals are the code's. Needs MXCSR without DAZ.
  JAL_INLINE static void decode_mxfp8_quick(const std::uint8_t* p, std::uint32_t e, V& odd, V& even) {
    // Eight even and the eight odd elements beside them in both halves, each half taking its four.
    const __m256i middle = broadcast_16(p + 8);
    const __m256i first = _mm256_blend_epi32(broadcast_16(p), middle, 0xcc);
    const __m256i second = _mm256_blend_epi32(middle, broadcast_16(p + 16), 0xcc);
    const __m256 factor = _mm256_castsi256_ps(_mm256_set1_epi32(static_cast<int>(kMxTables.e4m3_factor[e])));
    quick_halves(first, factor, odd.lo, even.lo);
    quick_halves(second, factor, odd.hi, even.hi);
  }
  JAL_INLINE static void decode_mxfp4(const std::uint8_t* p, std::uint32_t e, V& odd, V& even) {
    const __m256i both = broadcast_16(p);
    // Low nibbles in the low half, high nibbles in the high half.
    const __m256i code =
        _mm256_and_si256(_mm256_srlv_epi64(both, _mm256_setr_epi64x(0, 0, 4, 4)), _mm256_set1_epi8(0x0f));
    const __m256i low = _mm256_shuffle_epi8(broadcast_16(kMxTables.e2m1_bytes[e]), code);
    const __m256i high = _mm256_shuffle_epi8(broadcast_16(kMxTables.e2m1_bytes[e] + 16), code);
    split_pairs(_mm256_unpacklo_epi8(low, high), odd.lo, even.lo);
    split_pairs(_mm256_unpackhi_epi8(low, high), odd.hi, even.hi);
  }

 private:
  JAL_INLINE static __m256i broadcast_16(const std::uint8_t* p) {
    return _mm256_broadcastsi128_si256(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
  }
  JAL_INLINE static __m256 add_exponent_half(__m256 y, __m256 shifted, __m256 magic) {
    const __m256i n = _mm256_sub_epi32(_mm256_castps_si256(shifted), _mm256_castps_si256(magic));
    return _mm256_castsi256_ps(_mm256_add_epi32(_mm256_castps_si256(y), _mm256_slli_epi32(n, 23)));
  }
  /// BF16 pairs in dwords: the odd element is the high half as it stands.
  JAL_INLINE static void split_pairs(__m256i pairs, __m256& odd, __m256& even) {
    odd = _mm256_castsi256_ps(_mm256_and_si256(pairs, _mm256_set1_epi32(static_cast<int>(0xffff0000u))));
    even = _mm256_castsi256_ps(_mm256_slli_epi32(pairs, 16));
  }
  /// Per half: bytes 0 to 3 are the even and 8 to 11 the odd elements of half 0, 4 to 7 and 12 to 15 those of half 1.
  JAL_INLINE static void quick_halves(__m256i codes, __m256 factor, __m256& odd, __m256& even) {
    const __m256i order = _mm256_setr_epi8(0, 0, 8, 8, 1, 1, 9, 9, 2, 2, 10, 10, 3, 3, 11, 11,  //
                                           4, 4, 12, 12, 5, 5, 13, 13, 6, 6, 14, 14, 7, 7, 15, 15);
    // Each word has its code in both bytes; shifted and masked: sign in bit 15, magnitude in bits 10 to 4.
    const __m256i moved = _mm256_srai_epi16(_mm256_shuffle_epi8(codes, order), 4);
    const __m256i mask = _mm256_set1_epi32(static_cast<int>(0x87f00000u));
    odd = _mm256_mul_ps(_mm256_castsi256_ps(_mm256_and_si256(moved, mask)), factor);
    even = _mm256_mul_ps(_mm256_castsi256_ps(_mm256_and_si256(_mm256_slli_epi32(moved, 16), mask)), factor);
  }
  /// E4M3 to FP32 times 2^-8: the code's exponent and mantissa moved into an FP16, whose denormals convert exactly
  /// (this conversion ignores MXCSR.DAZ).
  JAL_INLINE static V e4m3_to_f32(__m128i codes) {
    const __m256i half = _mm256_and_si256(_mm256_slli_epi16(_mm256_cvtepi8_epi16(codes), 7),
                                          _mm256_set1_epi16(static_cast<short>(0xbf80)));
    return {_mm256_cvtph_ps(_mm256_castsi256_si128(half)), _mm256_cvtph_ps(_mm256_extracti128_si256(half, 1))};
  }
  JAL_INLINE static void deinterleave_half(const float* p, __m256& even, __m256& odd) {
    const __m256 a = _mm256_loadu_ps(p);
    const __m256 b = _mm256_loadu_ps(p + 8);
    even = permute_words(_mm256_shuffle_ps(a, b, 0x88));
    odd = permute_words(_mm256_shuffle_ps(a, b, 0xdd));
  }
  JAL_INLINE static void interleave_half(float* p, __m256 even, __m256 odd) {
    const __m256 a = _mm256_unpacklo_ps(even, odd);
    const __m256 b = _mm256_unpackhi_ps(even, odd);
    _mm256_storeu_ps(p, _mm256_permute2f128_ps(a, b, 0x20));
    _mm256_storeu_ps(p + 8, _mm256_permute2f128_ps(a, b, 0x31));
  }
  JAL_INLINE static __m256 permute_words(__m256 v) {
    return _mm256_castpd_ps(_mm256_permute4x64_pd(_mm256_castps_pd(v), 0xd8));
  }
  JAL_INLINE static __m256 pack_half(__m256 even, __m256 odd) {
    return _mm256_castsi256_ps(
        _mm256_or_si256(_mm256_srli_epi32(_mm256_castps_si256(even), 16), _mm256_castps_si256(odd)));
  }
  JAL_INLINE static __m256i bf16_bits(__m256 v) {
    const __m256i bits = _mm256_castps_si256(v);
    const __m256i lsb = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
    const __m256i rounded =
        _mm256_srli_epi32(_mm256_add_epi32(bits, _mm256_add_epi32(lsb, _mm256_set1_epi32(0x7fff))), 16);
    const __m256i nan = _mm256_castps_si256(_mm256_cmp_ps(v, v, _CMP_UNORD_Q));
    return _mm256_blendv_epi8(rounded, _mm256_set1_epi32(0x7fc0), nan);
  }
};

}  // namespace jal::emu::avx2
