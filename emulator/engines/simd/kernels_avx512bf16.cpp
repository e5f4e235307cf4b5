// Kernels for AVX-512 with BF16: the one file that uses vdpbf16ps. Compiled with those flags.
//
// vdpbf16ps computes per lane fma(even, even', fma(odd, odd', acc)), each rounded to nearest even with denormals
// flushed at both ends whatever MXCSR says: the engine's definition (verified over 288 million lanes, all exponent
// ranges, on Sapphire Rapids; the table's tests compare it with the scalar definition again).
#ifndef JAL_ENGINE_NAMESPACE
  #define JAL_ENGINE_NAMESPACE avx512_bf16
  #define JAL_ENGINE_TABLE kAvx512Bf16Kernels
#endif
#include "emulator/engines/simd/lanes_avx512.hpp"
// lanes first: the kernels below are written over its Arch
#include "emulator/engines/simd/table_simd.hpp"

namespace jal::emu {
namespace JAL_ENGINE_NAMESPACE {

JAL_INLINE __m512 dot_pairs(__m512 acc, __m512i w, __m512i x) {
#ifdef JAL_ENGINE_SIMDE
  // SIMDe's own adds the even element first; the processor's adds the odd one first. Called with flushing on.
  const __m512i high = _mm512_set1_epi32(static_cast<int>(0xffff0000u));
  acc = _mm512_fmadd_ps(_mm512_castsi512_ps(_mm512_and_si512(w, high)), _mm512_castsi512_ps(_mm512_and_si512(x, high)),
                        acc);
  return _mm512_fmadd_ps(_mm512_castsi512_ps(_mm512_slli_epi32(w, 16)), _mm512_castsi512_ps(_mm512_slli_epi32(x, 16)),
                         acc);
#else
  return _mm512_dpbf16_ps(acc, reinterpret_cast<__m512bh>(w), reinterpret_cast<__m512bh>(x));
#endif
}

/// The Arch with the pair multiplier of BF16 operands (see DotF32 for the members' meaning).
struct PairArch : Arch {
  static constexpr OperandLayout kScaledLayout = OperandLayout::scaled_pairs_zipped;
  template <WeightFormat F>
  struct DotPairs {
    using Arch = PairArch;
    using V = __m512;
    using Weights = __m512i;
    using Activations = __m512i;
    using Decoded = DotPairs<F == WeightFormat::mxfp4 ? WeightFormat::mxfp8 : F>;
    static constexpr WeightFormat kFormat = F;
    static constexpr std::size_t kActivationBytes = 64;
    static constexpr std::size_t kDecodedBytes = 64;
    /// A BF16 tile is already what a decoder would give.
    static constexpr bool kDecodes = F != WeightFormat::bf16;
    using Flush = FlushScope;

    JAL_INLINE static Weights decode(const std::uint8_t* p, std::uint32_t scale) {
      if constexpr (F == WeightFormat::bf16) {
        return pairs_bf16_zipped(p);
      } else if constexpr (F == WeightFormat::mxfp8) {
        return pairs_mxfp8_zipped(p, scale);
      } else {
        return pairs_mxfp4_zipped(p, scale);
      }
    }
    JAL_INLINE static Weights of_pairs(__m512i pairs) { return pairs; }
    JAL_INLINE static void store(std::uint8_t* p, Weights w) { _mm512_storeu_si512(p, w); }
    JAL_INLINE static Activations load(const std::uint8_t* p) {
      const __m512i x = _mm512_loadu_si512(p);
      if constexpr (F != WeightFormat::bf16) return x;
      // Takes the factor 2^8 off what is neither zero nor infinite; nothing here is denormal.
      const __m512i magnitude = _mm512_and_si512(x, _mm512_set1_epi16(0x7fff));
      const __mmask32 finite =
          _mm512_cmplt_epu16_mask(_mm512_sub_epi16(magnitude, _mm512_set1_epi16(1)), _mm512_set1_epi16(0x7f7f));
      return _mm512_mask_sub_epi16(x, finite, x, _mm512_set1_epi16(0x0400));
    }
    JAL_INLINE static V dot(V acc, Weights w, Activations x) { return dot_pairs(acc, w, x); }
    JAL_INLINE static Weights broadcast(const std::uint8_t* p, std::uint32_t l) {
      int pair = 0;
      // A BF16 tile is broadcast from as it lies.
      std::memcpy(&pair, p + (F == WeightFormat::bf16 ? l : zipped_position(l)) * 4, 4);
      return _mm512_set1_epi32(pair);
    }
    static constexpr bool kZipped = true;
    static constexpr bool kDecodesRows = false;
    /// MXFP8's decoder is long: eight copies of the loop over blocks are quicker alone, but jal-llm then decodes 0.96
    /// times as fast.
    static constexpr bool kFoldsEarly = F != WeightFormat::mxfp8;
  };
};

}  // namespace JAL_ENGINE_NAMESPACE

extern const KernelTable JAL_ENGINE_TABLE;
const KernelTable JAL_ENGINE_TABLE = make_table<JAL_ENGINE_NAMESPACE::PairArch>(Isa::avx512_bf16);

}  // namespace jal::emu
