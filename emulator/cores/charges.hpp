// What each verb costs: the model's figures as integers per operation.
//
// Source of every figure: the chip's model file. Approximations are listed in the fidelity table
// (instance/fidelity.cpp).
#pragma once
#include <jal/abi/tensor.h>
#include <jal/kernel/core_abi.h>

#include <cstdint>

#include "emulator/device/fixed_point.hpp"
#include "emulator/model/model.hpp"

namespace jal::emu {

/// Simple FP32 operations per element of a vector function, as the vector engine counts them: a transcendental is its
/// polynomial.
constexpr std::uint32_t vector_operations(std::uint32_t fn) {
  switch (fn) {
    case JAL_VEC_COPY:
    case JAL_VEC_FILL:
    case JAL_VEC_ADD:
    case JAL_VEC_SUB:
    case JAL_VEC_MUL:
    case JAL_VEC_SCALE:
    case JAL_VEC_SUM:
    case JAL_VEC_MAX:
    case JAL_VEC_ARGMAX:
    case JAL_VEC_BF16_FROM_F32:
    case JAL_VEC_F32_FROM_BF16:
      return 1;
    case JAL_VEC_FMA:
    case JAL_VEC_AXPY:
    case JAL_VEC_SUM_SQUARES:
    case JAL_VEC_SOFTMAX_FINISH:
      return 2;
    case JAL_VEC_ROPE_PAIRS:
    case JAL_VEC_ROPE_HALVES:
    case JAL_VEC_TOP_K:
      return 3;
    case JAL_VEC_RMSNORM:
      return 4;
    case JAL_VEC_EXP:
      return 10;
    case JAL_VEC_SILU:
      return 13;
    case JAL_VEC_SWIGLU:
      return 14;
    case JAL_VEC_SOFTMAX:
      return 14;
    case JAL_VEC_ROPE_TABLE:
      return 20;
    default:
      return 1;
  }
}

class Charges {
 public:
  explicit Charges(const Model& model)
      : model_(model),
        local_hbm_(model.hbm_bytes_per_second_per_slice),
        remote_hbm_(model.remote_hbm_bytes_per_second),
        collective_(model.collective_bytes_per_second),
        noc_(model.noc_link_bytes_per_second),
        vector_(model.vector_flops_per_second),
        matrix_f32_(model.matrix_flops_bf16_f32 / model.cores),
        matrix_bf16_(model.matrix_flops_bf16_bf16 / model.cores),
        hbm_each_(model.hbm_fj_per_byte),
        l1_each_(model.l1_fj_per_byte),
        collective_each_(model.collective_fj_per_byte),
        noc_each_(model.noc_fj_per_byte_hop),
        vector_each_(model.vector_fj_per_flop),
        matrix_f32_each_(model.matrix_fj_per_flop_f32),
        matrix_bf16_each_(model.matrix_fj_per_flop_bf16),
        verb_fj_(femtojoules(1, model.scalar_fj_per_verb)) {}
  const Model& model() const { return model_; }

  std::uint64_t local_hbm_ps(std::uint64_t bytes) const { return picoseconds(bytes, local_hbm_); }
  std::uint64_t remote_hbm_ps(std::uint64_t bytes) const { return picoseconds(bytes, remote_hbm_); }
  std::uint64_t collective_ps(std::uint64_t bytes) const { return picoseconds(bytes, collective_); }
  std::uint64_t noc_ps(std::uint64_t bytes) const { return picoseconds(bytes, noc_); }
  std::uint64_t vector_ps(std::uint64_t operations) const { return picoseconds(operations, vector_); }
  std::uint64_t matrix_ps(std::uint64_t flops, bool is_f32) const {
    return picoseconds(flops, is_f32 ? matrix_f32_ : matrix_bf16_);
  }

  std::uint64_t hbm_fj(std::uint64_t bytes) const { return femtojoules(bytes, hbm_each_); }
  std::uint64_t l1_fj(std::uint64_t bytes) const { return femtojoules(bytes, l1_each_); }
  std::uint64_t collective_fj(std::uint64_t bytes) const { return femtojoules(bytes, collective_each_); }
  std::uint64_t noc_fj(std::uint64_t bytes, std::uint32_t hops) const { return femtojoules(bytes * hops, noc_each_); }
  std::uint64_t vector_fj(std::uint64_t operations) const { return femtojoules(operations, vector_each_); }
  std::uint64_t verb_fj() const { return verb_fj_; }
  std::uint64_t matrix_fj(std::uint64_t flops, bool is_f32) const {
    return femtojoules(flops, is_f32 ? matrix_f32_each_ : matrix_bf16_each_);
  }

  /// Hops between two cores on the grid, row first.
  std::uint32_t hops(std::uint32_t a, std::uint32_t b) const {
    const std::uint32_t cols = model_.grid_cols;
    const auto distance = [](std::uint32_t x, std::uint32_t y) { return x > y ? x - y : y - x; };
    return distance(a / cols, b / cols) + distance(a % cols, b % cols);
  }

 private:
  const Model& model_;
  Rate local_hbm_, remote_hbm_, collective_, noc_, vector_, matrix_f32_, matrix_bf16_;
  EnergyEach hbm_each_, l1_each_, collective_each_, noc_each_, vector_each_, matrix_f32_each_, matrix_bf16_each_;
  std::uint64_t verb_fj_;
};

}  // namespace jal::emu
