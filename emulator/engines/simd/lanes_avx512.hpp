// Sixteen FP32 lanes as one AVX-512 register, with the decoders of weight blocks. For kernels_avx512*.cpp only.
//
// What it is not: an interface; it is the Arch parameter of the kernels in matrix_simd.hpp and its siblings.
// Invariant: lane l of V is virtual lane l of the engine; FP32 decoders of MX blocks give weights times 2^-8, the BF16
// pair decoders (for vdpbf16ps) give the weights themselves.
// JAL_ENGINE_NAMESPACE names the copy: the file is compiled for AVX-512, for AVX-512 with BF16, and, in a test, for
// SIMDe, when JAL_ENGINE_SIMDE is the header to include in the place of immintrin.h.
#pragma once
#ifdef JAL_ENGINE_SIMDE
  #include JAL_ENGINE_SIMDE
#else
  #include <immintrin.h>
#endif

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "emulator/engines/kernels.hpp"
#include "emulator/engines/simd/fold_avx2.hpp"

namespace jal::emu::JAL_ENGINE_NAMESPACE {

#define JAL_INLINE [[gnu::always_inline]] inline

struct Arch {
  using V = __m512;
  static constexpr int kMaxRows = 12;
  static constexpr int kTokenVectors = 2;  ///< 24 accumulators, 2 tokens, 1 weight, 1 scale, 1 partial: 29 of 32
  static constexpr int kValueRows = 4;
  static constexpr int kValueVectors = 4;

  JAL_INLINE static V zero() { return _mm512_setzero_ps(); }
  JAL_INLINE static V set1(float x) { return _mm512_set1_ps(x); }
  JAL_INLINE static V broadcast(const void* p) { return _mm512_set1_ps(*static_cast<const float*>(p)); }
  JAL_INLINE static V load(const void* p) { return _mm512_loadu_ps(p); }
  JAL_INLINE static void store(float* p, V v) { _mm512_storeu_ps(p, v); }
  JAL_INLINE static V load_n(const float* p, std::size_t n) { return _mm512_maskz_loadu_ps(mask_below(n), p); }
  JAL_INLINE static void store_n(float* p, V v, std::size_t n) { _mm512_mask_storeu_ps(p, mask_below(n), v); }
  JAL_INLINE static V add(V a, V b) { return _mm512_add_ps(a, b); }
  JAL_INLINE static V sub(V a, V b) { return _mm512_sub_ps(a, b); }
  JAL_INLINE static V mul(V a, V b) { return _mm512_mul_ps(a, b); }
  JAL_INLINE static V div(V a, V b) { return _mm512_div_ps(a, b); }
  JAL_INLINE static V fma(V a, V b, V c) { return _mm512_fmadd_ps(a, b, c); }
  JAL_INLINE static V max_gt(V x, V m) { return _mm512_max_ps(x, m); }
  JAL_INLINE static V select_gt(V a, V b, V t, V f) {
    return _mm512_mask_mov_ps(f, _mm512_cmp_ps_mask(a, b, _CMP_GT_OQ), t);
  }
  JAL_INLINE static V select_nan(V x, V f) {
    const V nan = _mm512_castsi512_ps(_mm512_set1_epi32(0x7fc00000));
    return _mm512_mask_mov_ps(f, _mm512_cmp_ps_mask(x, x, _CMP_UNORD_Q), nan);
  }
  JAL_INLINE static V negate(V x) {
    return _mm512_castsi512_ps(
        _mm512_xor_si512(_mm512_castps_si512(x), _mm512_set1_epi32(static_cast<int>(0x80000000u))));
  }
  JAL_INLINE static V add_exponent(V y, V shifted, V magic) {
    const __m512i n = _mm512_sub_epi32(_mm512_castps_si512(shifted), _mm512_castps_si512(magic));
    return _mm512_castsi512_ps(_mm512_add_epi32(_mm512_castps_si512(y), _mm512_slli_epi32(n, 23)));
  }
  JAL_INLINE static V keep_below(V x, std::uint32_t n, V other) { return _mm512_mask_mov_ps(other, mask_below(n), x); }
  JAL_INLINE static __m256 half(V v) { return _mm256_add_ps(lower(v), upper(v)); }
  JAL_INLINE static float fold_sum(V v) { return fold_half_sum(half(v)); }
  JAL_INLINE static float fold_max(V v) { return fold_half_max(_mm256_max_ps(upper(v), lower(v))); }

  JAL_INLINE static void deinterleave(const float* p, V& even, V& odd) {
    const V a = load(p);
    const V b = load(p + 16);
    const __m512i evens = _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
    even = _mm512_permutex2var_ps(a, evens, b);
    odd = _mm512_permutex2var_ps(a, _mm512_add_epi32(evens, _mm512_set1_epi32(1)), b);
  }
  JAL_INLINE static void interleave(float* p, V even, V odd) {
    const __m512i low = _mm512_setr_epi32(0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
    store(p, _mm512_permutex2var_ps(even, low, odd));
    store(p + 16, _mm512_permutex2var_ps(even, _mm512_add_epi32(low, _mm512_set1_epi32(8)), odd));
  }
  JAL_INLINE static void store_bf16(std::uint16_t* p, V v) {
    const __m512i bits = _mm512_castps_si512(v);
    const __m512i lsb = _mm512_and_si512(_mm512_srli_epi32(bits, 16), _mm512_set1_epi32(1));
    __m512i rounded = _mm512_srli_epi32(_mm512_add_epi32(bits, _mm512_add_epi32(lsb, _mm512_set1_epi32(0x7fff))), 16);
    rounded = _mm512_mask_mov_epi32(rounded, _mm512_cmp_ps_mask(v, v, _CMP_UNORD_Q), _mm512_set1_epi32(0x7fc0));
    const __m256i packed = _mm256_packus_epi32(_mm512_castsi512_si256(rounded), _mm512_extracti64x4_epi64(rounded, 1));
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), _mm256_permute4x64_epi64(packed, 0xd8));
  }
  JAL_INLINE static V load_bf16(const std::uint16_t* p) {
    return _mm512_castsi512_ps(
        _mm512_slli_epi32(_mm512_cvtepu16_epi32(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p))), 16));
  }

  JAL_INLINE static void decode_bf16(const std::uint8_t* p, V& odd, V& even) {
    split_pairs(_mm512_loadu_si512(p), odd, even);
  }
  JAL_INLINE static void decode_mxfp8(const std::uint8_t* p, V& odd, V& even) {
    even = e4m3_to_f32(p);
    odd = e4m3_to_f32(p + 16);
  }
  JAL_INLINE static void decode_mxfp4(const std::uint8_t* p, V& odd, V& even) {
    // BF16 of the value times 2^-8.
    split_pairs(mxfp4_words(p, word_table(0x3b00)), odd, even);
  }

  // The same blocks as BF16 pairs, element 2l in the low half of dword l.
  JAL_INLINE static __m512i pairs_bf16(const std::uint8_t* p) { return _mm512_loadu_si512(p); }
  JAL_INLINE static __m512i pairs_mxfp4(const std::uint8_t* p) { return mxfp4_words(p, word_table(0x3f00)); }
  JAL_INLINE static __m512i pairs_mxfp8(const std::uint8_t* p) {
    const __m512i even = _mm512_cvtepi8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
    const __m512i odd = _mm512_cvtepi8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p + 16)));
    const __m512i code = _mm512_mask_blend_epi16(0xaaaaaaaau, even, _mm512_slli_epi32(odd, 16));
    // Sign in bits 15 to 7, magnitude below: magnitude to bits 10..4, then the exponent's bias, or, for a denormal
    // code, what makes it the BF16 of its value.
    const __m512i moved = _mm512_and_si512(_mm512_slli_epi16(code, 4), _mm512_set1_epi16(static_cast<short>(0x87f0)));
    const __mmask32 denormal = _mm512_testn_epi16_mask(code, _mm512_set1_epi16(0x78));
    // BF16 of m * 2^-9 less m << 4, for m = 0..7.
    const __m512i fix =
        _mm512_broadcast_i32x4(_mm_setr_epi16(0x0000, 0x3b00 - 0x10, 0x3b80 - 0x20, 0x3bc0 - 0x30, 0x3c00 - 0x40,
                                              0x3c20 - 0x50, 0x3c40 - 0x60, 0x3c60 - 0x70));
    const __m512i bias = _mm512_mask_permutexvar_epi16(_mm512_set1_epi16(0x3c00), denormal, code, fix);
    return _mm512_add_epi16(moved, bias);
  }

  JAL_INLINE static void scales_to_f32(const std::uint8_t* p, std::uint32_t n, float* out) {
    for (std::uint32_t i = 0; i < n; i += 16) {
      const __m512i e = _mm512_cvtepu8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p + i)));
      const __mmask16 nan = _mm512_cmpeq_epi32_mask(e, _mm512_set1_epi32(255));
      const __m512i factor = _mm512_mask_mov_epi32(_mm512_slli_epi32(e, 23), nan, _mm512_set1_epi32(0x7fc00000));
      _mm512_storeu_si512(out + i, factor);
    }
  }

 private:
  JAL_INLINE static __mmask16 mask_below(std::size_t n) {
    return n >= 16 ? static_cast<__mmask16>(0xffff) : static_cast<__mmask16>((1u << n) - 1u);
  }
  JAL_INLINE static __m256 lower(V v) { return _mm512_castps512_ps256(v); }
  JAL_INLINE static __m256 upper(V v) { return _mm256_castpd_ps(_mm512_extractf64x4_pd(_mm512_castps_pd(v), 1)); }
  JAL_INLINE static void split_pairs(__m512i pairs, V& odd, V& even) {
    odd = _mm512_castsi512_ps(_mm512_and_si512(pairs, _mm512_set1_epi32(static_cast<int>(0xffff0000u))));
    even = _mm512_castsi512_ps(_mm512_slli_epi32(pairs, 16));
  }
  JAL_INLINE static V e4m3_to_f32(const std::uint8_t* p) {
    const __m256i words = _mm256_cvtepi8_epi16(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
    return _mm512_cvtph_ps(
        _mm256_and_si256(_mm256_slli_epi16(words, 7), _mm256_set1_epi16(static_cast<short>(0xbf80))));
  }
  /// E2M1 as BF16 with 0.5 at pattern `half`, for all 32 indices of vpermw: its fifth index bit is the next code's.
  JAL_INLINE static __m512i word_table(int half) {
    const short h = static_cast<short>(half);
    const short n = static_cast<short>(half - 0x8000);
    return _mm512_broadcast_i64x4(
        _mm256_setr_epi16(0, h, static_cast<short>(h + 0x80), static_cast<short>(h + 0xc0),
                          static_cast<short>(h + 0x100), static_cast<short>(h + 0x140), static_cast<short>(h + 0x180),
                          static_cast<short>(h + 0x1c0), static_cast<short>(0x8000), n, static_cast<short>(n + 0x80),
                          static_cast<short>(n + 0xc0), static_cast<short>(n + 0x100), static_cast<short>(n + 0x140),
                          static_cast<short>(n + 0x180), static_cast<short>(n + 0x1c0)));
  }
  JAL_INLINE static __m512i mxfp4_words(const std::uint8_t* p, __m512i table) {
    std::uint64_t low = 0;
    std::uint64_t high = 0;
    std::memcpy(&low, p, 8);
    std::memcpy(&high, p + 8, 8);
    // Elements 0..15 come from the first eight bytes, 16..31 from the last; per quadword four codes are chosen.
    const __m512i bytes =
        _mm512_mask_set1_epi64(_mm512_set1_epi64(static_cast<long long>(low)), 0xf0, static_cast<long long>(high));
    const __m512i bit = _mm512_broadcast_i64x4(
        _mm256_setr_epi64x(0x0018001000080000, 0x0038003000280020, 0x001c0014000c0004, 0x003c0034002c0024));
    return _mm512_permutexvar_epi16(_mm512_multishift_epi64_epi8(bit, bytes), table);
  }
};

}  // namespace jal::emu::JAL_ENGINE_NAMESPACE
