// Builds the kernel table of one Arch.
#pragma once
#include "emulator/engines/simd/attention_simd.hpp"
#include "emulator/engines/simd/matrix_simd.hpp"
#include "emulator/engines/simd/operand_simd.hpp"
#include "emulator/engines/simd/vector_simd.hpp"

namespace jal::emu {

/// From about eight tokens on a padded group of 16 is cheaper than single tokens (measured, 9 x 576 and 45 x 2880).
inline constexpr std::uint32_t kGroupThreshold = 8;

template <class A>
constexpr KernelTable make_table(Isa isa) {
  using M = MatrixKernels<A>;
  using O = OperandKernels<A>;
  using T = AttentionKernels<A>;
  using F = VectorKernels<A>;
  return {isa,           A::kScaledLayout, kGroupThreshold,  O::single,       O::group,       M::gemv,
          M::gemm,       T::page,          T::merge,         F::add,          F::sub,         F::mul,
          F::fma,        F::axpy,          F::scale,         F::div_scalar,   F::exp,         F::exp_minus,
          F::silu,       F::swiglu,        F::scale_mul,     F::sum,          F::sum_squares, F::max,
          F::rope_pairs, F::rope_halves,   F::bf16_from_f32, F::f32_from_bf16};
}

}  // namespace jal::emu
