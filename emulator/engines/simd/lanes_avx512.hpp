// Sixteen FP32 lanes as one AVX-512 register, with the decoders of weight blocks. For kernels_avx512*.cpp only.
//
// What it is not: an interface; it is the Arch parameter of the kernels in matrix_simd.hpp and its siblings.
// Invariant: lane l of V is virtual lane l of the engine, except where a name says zipped (kernels.hpp).
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
#include "emulator/engines/mx_tables.hpp"
#include "emulator/engines/simd/fold_avx2.hpp"

namespace jal::emu::JAL_ENGINE_NAMESPACE {

#define JAL_INLINE [[gnu::always_inline]] inline

struct Arch {
  using V = __m512;
  static constexpr OperandLayout kScaledLayout = OperandLayout::scaled_f32_zipped;
  static constexpr bool kHasQuickMxfp8 = false;  ///< there is decode_mxfp8_quick()
  static constexpr bool kFoldsEarly = true;      ///< there is RowFold
  static constexpr int kGemvRows = 4;
  static constexpr int kMaxRows = JAL_ENGINE_ROWS(12);
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
  JAL_INLINE static float fold_sum(V v) { return fold_half_sum(_mm256_add_ps(lower(v), upper(v))); }
  /// The fold of a row's eight panels, each to one value, as the panels come: pairs of vectors meet as in a binary
  /// counter, so that four vectors a row are live and not eight, which four rows would have to keep in memory.
  /// `zipped`: the lanes are.
  template <bool kZipped>
  class RowFold {
   public:
    template <std::uint32_t P>
    JAL_INLINE void add_panel(V v) {
      if constexpr (kZipped) {
        // l + 8 lies beside l: a result holds, in quarter i, lanes 2i and 2i + 1 of two panels. Then l + 4, two
        // quarters on, and l + 2, one quarter on.
        constexpr int kAt = P < 2 ? 0 : P < 6 ? 1 : 2;
        if constexpr (P % 2 == 0) v_[kAt] = v;
        if constexpr (P % 2 == 1) v_[kAt] = add_pairs(v_[kAt], v);
        if constexpr (P == 3) v_[0] = add_halves(v_[0], v_[1]);
        if constexpr (P == 7) v_[0] = add_quarters(v_[0], add_halves(v_[1], v_[2]));
      } else {
        // l + 8: a result holds eight lanes of panels i and i + 4; l + 4: four lanes of panels 0 1 4 5 and 2 3 6 7; l +
        // 2: two lanes of 0 2, 1 3, 4 6, 5 7.
        if constexpr (P < 4) v_[P] = v;
        if constexpr (P >= 4) v_[P - 4] = add_halves(v_[P - 4], v);
        if constexpr (P == 5) v_[0] = add_quarters(v_[0], v_[1]);
        if constexpr (P == 7) v_[0] = add_pairs(v_[0], add_quarters(v_[2], v_[3]));
      }
    }
    /// Result lane p is the fold of panel p. After the last one.
    JAL_INLINE __m256 sums() const {
      const V v = add_neighbours(v_[0]);
      return kZipped ? pick(v, _mm512_setr_epi32(0, 2, 8, 10, 4, 6, 12, 14, 0, 0, 0, 0, 0, 0, 0, 0))
                     : pick(v, _mm512_setr_epi32(0, 4, 2, 6, 8, 12, 10, 14, 0, 0, 0, 0, 0, 0, 0, 0));
    }

   private:
    V v_[4];
  };
  /// The same when all eight are there.
  using Half = V;
  JAL_INLINE static Half half(V v) { return v; }
  template <bool kZipped>
  JAL_INLINE static __m256 fold_8(const Half* panels) {
    RowFold<kZipped> fold;
    fold.template add_panel<0>(panels[0]);
    fold.template add_panel<1>(panels[1]);
    fold.template add_panel<2>(panels[2]);
    fold.template add_panel<3>(panels[3]);
    fold.template add_panel<4>(panels[4]);
    fold.template add_panel<5>(panels[5]);
    fold.template add_panel<6>(panels[6]);
    fold.template add_panel<7>(panels[7]);
    return fold.sums();
  }
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
  /// Rounded to BF16, still FP32 (the low half zero); NaN canonical.
  JAL_INLINE static V round_bf16(V v) { return _mm512_castsi512_ps(_mm512_slli_epi32(bf16_bits(v), 16)); }
  /// Natural lane order to the order of this Arch's scaled operands.
  JAL_INLINE static V zip(V v) {
    return _mm512_permutexvar_ps(_mm512_setr_epi32(0, 1, 8, 9, 2, 3, 10, 11, 4, 5, 12, 13, 6, 7, 14, 15), v);
  }
  /// Values with a zero low half, as BF16 pairs in dwords.
  JAL_INLINE static V pack_pairs(V even, V odd) {
    return _mm512_castsi512_ps(
        _mm512_or_si512(_mm512_srli_epi32(_mm512_castps_si512(even), 16), _mm512_castps_si512(odd)));
  }
  JAL_INLINE static void store_bf16(std::uint16_t* p, V v) {
    const __m512i bits = bf16_bits(v);
    const __m256i packed = _mm256_packus_epi32(_mm512_castsi512_si256(bits), _mm512_extracti64x4_epi64(bits, 1));
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), _mm256_permute4x64_epi64(packed, 0xd8));
  }
  JAL_INLINE static V load_bf16(const std::uint16_t* p) {
    return _mm512_castsi512_ps(
        _mm512_slli_epi32(_mm512_cvtepu16_epi32(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p))), 16));
  }

  // Weight blocks as BF16 pairs, element 2l in the low half of a dword; MX ones as w' (mx_tables.hpp), e being the
  // scale byte. `zipped`: dwords in the order of zipped_position().
  JAL_INLINE static __m512i pairs_bf16_zipped(const std::uint8_t* p) {
    return _mm512_permutexvar_epi64(_mm512_setr_epi64(0, 4, 1, 5, 2, 6, 3, 7), _mm512_loadu_si512(p));
  }
  JAL_INLINE static __m512i pairs_mxfp8_zipped(const std::uint8_t* p, std::uint32_t e) {
    if (!mx_scale_is_plain(e)) [[unlikely]]
      return pairs_mxfp8_any_scale(p, e);
    const __m256i bytes = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
    // Fewer than one block in a hundred of weights has any such, and the test of the bytes costs a third of what it
    // saves: from cache, a GEMV is 1.06 to 1.23 times as fast on Zen 4.
    if (small_mxfp8(bytes) == 0) [[likely]]
      return pairs_mxfp8_normal(bytes, e);
    return pairs_mxfp8_small(bytes, e);
  }
  /// Which of a block's codes are zero or denormal. They get a bias of their own.
  JAL_INLINE static __mmask32 small_mxfp8(__m256i bytes) {
    return _mm256_testn_epi8_mask(bytes, _mm256_set1_epi8(0x78));
  }
  /// A block without them, of a plain scale.
  JAL_INLINE static __m512i pairs_mxfp8_normal(__m256i bytes, std::uint32_t e) {
    return _mm512_add_epi16(mxfp8_moved(mxfp8_words(bytes)),
                            _mm512_set1_epi32(static_cast<int>(kMxTables.e4m3_bias[e])));
  }
  /// Any block of a plain scale.
  JAL_INLINE static __m512i pairs_mxfp8_small(__m256i bytes, std::uint32_t e) {
    const __m512i code = mxfp8_words(bytes);
    const __mmask32 small = _mm512_testn_epi16_mask(code, _mm512_set1_epi16(0x78));
    const __m512i bias = _mm512_mask_permutexvar_epi16(
        _mm512_set1_epi32(static_cast<int>(kMxTables.e4m3_bias[e])), small, code,
        _mm512_broadcast_i32x4(_mm_load_si128(reinterpret_cast<const __m128i*>(kMxTables.e4m3_small[e]))));
    return _mm512_add_epi16(mxfp8_moved(code), bias);
  }
  JAL_INLINE static __m512i pairs_mxfp4_zipped(const std::uint8_t* p, std::uint32_t e) {
    // Per quadword four codes come to the low bits of four words; words' other bits are ignored.
    const __m512i bit =
        _mm512_setr_epi64(0x0018001000080000, 0x0018001000080000, 0x0038003000280020, 0x0038003000280020,
                          0x001c0014000c0004, 0x001c0014000c0004, 0x003c0034002c0024, 0x003c0034002c0024);
    const __m512i bytes = _mm512_broadcast_i32x4(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
    return _mm512_permutexvar_epi16(_mm512_multishift_epi64_epi8(bit, bytes),
                                    _mm512_load_si512(kMxTables.e2m1_words[e]));
  }
  JAL_INLINE static void split_pairs(__m512i pairs, V& odd, V& even) {
    odd = _mm512_castsi512_ps(_mm512_and_si512(pairs, _mm512_set1_epi32(static_cast<int>(0xffff0000u))));
    even = _mm512_castsi512_ps(_mm512_slli_epi32(pairs, 16));
  }

  JAL_INLINE static void decode_bf16(const std::uint8_t* p, V& odd, V& even) {
    split_pairs(_mm512_loadu_si512(p), odd, even);
  }
  JAL_INLINE static void decode_bf16_zipped(const std::uint8_t* p, V& odd, V& even) {
    split_pairs(pairs_bf16_zipped(p), odd, even);
  }
  JAL_INLINE static void decode_mxfp8(const std::uint8_t* p, std::uint32_t e, V& odd, V& even) {
    split_pairs(pairs_mxfp8_zipped(p, e), odd, even);
  }
  JAL_INLINE static void decode_mxfp4(const std::uint8_t* p, std::uint32_t e, V& odd, V& even) {
    split_pairs(pairs_mxfp4_zipped(p, e), odd, even);
  }

 private:
  // Pairs of vectors folded by one step: a blend, which either vector port does, and one shuffle, which one does, where
  // two shuffles would give the addends in order. Addition does not mind; a NaN is made canonical in the end.
  /// Quarters 0 1 of a plus its quarters 2 3, then the same of b.
  JAL_INLINE static V add_halves(V a, V b) {
    return add(_mm512_mask_blend_ps(0xff00, a, b), _mm512_shuffle_f32x4(a, b, 0x4e));
  }
  /// In each half quarter 0 plus quarter 1 of a's half, then of b's.
  JAL_INLINE static V add_quarters(V a, V b) {
    const __m512i crossed = _mm512_setr_epi32(4, 5, 6, 7, 16, 17, 18, 19, 12, 13, 14, 15, 24, 25, 26, 27);
    return add(_mm512_mask_blend_ps(0xf0f0, a, b), _mm512_permutex2var_ps(a, crossed, b));
  }
  /// Elements 0 and 2 of each quarter: the sum with the neighbour.
  JAL_INLINE static V add_neighbours(V v) { return add(v, _mm512_shuffle_ps(v, v, 0xb1)); }
  /// In each quarter the first pair of elements plus the second pair, of a and then of b.
  JAL_INLINE static V add_pairs(V a, V b) {
    return add(_mm512_mask_blend_ps(0xcccc, a, b), _mm512_shuffle_ps(a, b, 0x4e));
  }
  JAL_INLINE static __m256 pick(V v, __m512i index) { return lower(_mm512_permutexvar_ps(index, v)); }
  JAL_INLINE static __m512i bf16_bits(V v) {
    const __m512i bits = _mm512_castps_si512(v);
    const __m512i lsb = _mm512_and_si512(_mm512_srli_epi32(bits, 16), _mm512_set1_epi32(1));
    const __m512i rounded =
        _mm512_srli_epi32(_mm512_add_epi32(bits, _mm512_add_epi32(lsb, _mm512_set1_epi32(0x7fff))), 16);
    return _mm512_mask_mov_epi32(rounded, _mm512_cmp_ps_mask(v, v, _CMP_UNORD_Q), _mm512_set1_epi32(0x7fc0));
  }
  JAL_INLINE static __mmask16 mask_below(std::size_t n) {
    return n >= 16 ? static_cast<__mmask16>(0xffff) : static_cast<__mmask16>((1u << n) - 1u);
  }
  JAL_INLINE static __m256 lower(V v) { return _mm512_castps512_ps256(v); }
  JAL_INLINE static __m256 upper(V v) { return _mm256_castpd_ps(_mm512_extractf64x4_pd(_mm512_castps_pd(v), 1)); }
  /// Each word gets its code in both bytes.
  JAL_INLINE static __m512i mxfp8_words(__m256i bytes) {
    return _mm512_permutexvar_epi8(_mm512_loadu_si512(kMxfp8Order.byte), _mm512_castsi256_si512(bytes));
  }
  /// Shifted and masked: sign in bit 15, magnitude in bits 10 to 4.
  JAL_INLINE static __m512i mxfp8_moved(__m512i code) {
    return _mm512_and_si512(_mm512_srai_epi16(code, 4), _mm512_set1_epi16(static_cast<short>(0x87f0)));
  }
  /// For word w the block's byte of its element, twice.
  alignas(64) static constexpr auto kMxfp8Order = [] {
    struct Order {
      std::uint8_t byte[64];
    } order{};
    for (std::uint32_t l = 0; l < 16; ++l) {
      for (std::uint32_t i = 0; i < 4; ++i) {
        order.byte[zipped_position(l) * 4 + i] = static_cast<std::uint8_t>(l + i / 2 * 16);
      }
    }
    return order;
  }();
  /// Scales whose products are flushed, and the NaN scale: element by element.
  [[gnu::noinline]] static __m512i pairs_mxfp8_any_scale(const std::uint8_t* p, std::uint32_t e) {
    alignas(64) std::uint16_t words[32];
    for (std::uint32_t l = 0; l < 16; ++l) {
      for (std::uint32_t i = 0; i < 2; ++i) {
        const std::uint32_t code = p[l + i * 16];
        words[zipped_position(l) * 2 + i] = mx_bf16(e4m3_ninths(code & 0x7fu), code >= 128, e);
      }
    }
    return _mm512_load_si512(words);
  }
};

}  // namespace jal::emu::JAL_ENGINE_NAMESPACE
