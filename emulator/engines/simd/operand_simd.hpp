// Operands over an Arch of sixteen lanes: rounding, odd and even elements apart, tokens beside each other.
//
// What it is not: compiled by itself. Layouts: OperandHeader in kernels.hpp.
// Invariant: values are those of scalar/kernels_scalar.cpp (prepare_single); only their places differ.
#pragma once
#include "emulator/engines/kernels.hpp"
#include "emulator/engines/mxcsr.hpp"
#include "emulator/engines/simd/fold_avx2.hpp"

namespace jal::emu {

template <class A>
struct OperandKernels {
  using V = typename A::V;

  static void single(OperandLayout layout, const float* x, std::uint32_t k, std::uint32_t blocks, void* out) {
    const FlushScope flush;
    float* at = static_cast<float*>(out);
    for (std::uint32_t b = 0; b < blocks; ++b) {
      V even, odd;
      load_block(layout, x, k, b, even, odd);
      if (layout == OperandLayout::scaled_pairs_zipped) {
        A::store(at, A::zip(A::pack_pairs(even, odd)));
        at += 16;
        continue;
      }
      const bool zipped = layout == OperandLayout::scaled_f32_zipped;
      A::store(at, zipped ? A::zip(odd) : odd);
      A::store(at + 16, zipped ? A::zip(even) : even);
      at += 32;
    }
  }

  static void group(OperandLayout layout, const float* x, std::size_t x_stride, std::uint32_t tokens, std::uint32_t k,
                    std::uint32_t blocks, void* out) {
    const FlushScope flush;
    const bool pairs = layout == OperandLayout::scaled_pairs_zipped;
    // A lane's 16 tokens are one line of pairs, or two of FP32, odd then even.
    const std::size_t lane_floats = pairs ? kLanes : 2 * kLanes;
    float* block_out = static_cast<float*>(out);
    for (std::uint32_t b = 0; b < blocks; ++b, block_out += kLanes * lane_floats) {
      alignas(64) float first[kLanes][kLanes] = {};   // token by lane: pairs, or odd elements
      alignas(64) float second[kLanes][kLanes] = {};  // even elements
      for (std::uint32_t t = 0; t < tokens; ++t) {
        V even, odd;
        load_block(layout, x + t * x_stride, k, b, even, odd);
        A::store(first[t], pairs ? A::pack_pairs(even, odd) : odd);
        if (!pairs) A::store(second[t], even);
      }
      transpose(first, block_out, lane_floats);
      if (!pairs) transpose(second, block_out + kLanes, lane_floats);
    }
  }

 private:
  /// Block b of a token, in natural lane order; beyond k zero. Scaled: multiplying by 2^8 under FlushScope makes
  /// denormals zero and what reaches 2^128 infinite.
  JAL_INLINE static void load_block(OperandLayout layout, const float* x, std::uint32_t k, std::uint32_t b, V& even,
                                    V& odd) {
    const std::uint32_t begin = b * kBlockElements;
    if (k - begin >= kBlockElements) {
      A::deinterleave(x + begin, even, odd);
    } else {
      alignas(64) float rest[kBlockElements] = {};
      std::memcpy(rest, x + begin, (k - begin) * sizeof(float));
      A::deinterleave(rest, even, odd);
    }
    if (layout != OperandLayout::plain_f32) {
      even = scaled(even);
      odd = scaled(odd);
    }
  }
  JAL_INLINE static V scaled(V v) {
    const V product = A::mul(A::round_bf16(v), A::set1(256.0f));
    return A::select_nan(product, product);
  }
  /// in[token][lane] to out[lane * lane_floats + token].
  JAL_INLINE static void transpose(const float (&in)[kLanes][kLanes], float* out, std::size_t lane_floats) {
    for (std::uint32_t t = 0; t < kLanes; t += 8) {
      for (std::uint32_t l = 0; l < kLanes; l += 8) {
        __m256 row[8];
        __m256 column[8];
        JAL_UNROLL
        for (std::uint32_t i = 0; i < 8; ++i) row[i] = _mm256_load_ps(&in[t + i][l]);
        transpose_8x8(row, column);
        JAL_UNROLL
        for (std::uint32_t i = 0; i < 8; ++i) _mm256_storeu_ps(out + (l + i) * lane_floats + t, column[i]);
      }
    }
  }
};

}  // namespace jal::emu
