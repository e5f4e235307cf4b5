// The table of model_keys.hpp. Ranges are sanity limits: outside them a value is a slip of the pen, not a chip.
#include "emulator/model/model_keys.hpp"

namespace jal::emu {
namespace {
constexpr double kGiga = 1e9, kTera = 1e12, kPsPerNs = 1e3;
constexpr double kKiB = 1024, kMiB = 1024.0 * 1024.0;
}  // namespace

const std::vector<ModelKey>& model_keys() {
  static const std::vector<ModelKey> keys = {
      {"organisation.grid_rows", "cores", 1, 64, 1, &Model::grid_rows},
      {"organisation.grid_cols", "cores", 1, 64, 1, &Model::grid_cols},
      {"organisation.clock", "GHz", 0.1, 10, kGiga, &Model::clock_hz},
      {"organisation.l1", "KiB", 16, 16384, kKiB, &Model::l1_bytes},
      {"memory.slice", "MiB", 1, 4096, kMiB, &Model::slice_bytes},
      {"memory.firmware_reserve_per_slice", "MiB", 0, 1024, kMiB, &Model::reserved_bytes_per_slice},

      {"rate.hbm_per_slice", "GB/s", 0.1, 1e5, kGiga, &Model::hbm_bytes_per_second_per_slice},
      {"rate.matrix_mxfp4_mxfp4", "TFLOP/s", 0.01, 1e6, kTera, &Model::matrix_flops_mxfp4_mxfp4},
      {"rate.matrix_mxfp8_mxfp4", "TFLOP/s", 0.01, 1e6, kTera, &Model::matrix_flops_mxfp8_mxfp4},
      {"rate.matrix_mxfp8_mxfp8", "TFLOP/s", 0.01, 1e6, kTera, &Model::matrix_flops_mxfp8_mxfp8},
      {"rate.matrix_bf16_bf16", "TFLOP/s", 0.01, 1e6, kTera, &Model::matrix_flops_bf16_bf16},
      {"rate.matrix_bf16_f32", "TFLOP/s", 0.01, 1e6, kTera, &Model::matrix_flops_bf16_f32},
      {"rate.vector_per_core", "GFLOP/s", 0.01, 1e6, kGiga, &Model::vector_flops_per_second},
      {"rate.collective_per_core", "GB/s", 0.1, 1e5, kGiga, &Model::collective_bytes_per_second},
      {"rate.noc_link", "GB/s", 0.1, 1e5, kGiga, &Model::noc_link_bytes_per_second},
      {"rate.hbm_remote_per_core", "GB/s", 0.1, 1e5, kGiga, &Model::remote_hbm_bytes_per_second},
      {"rate.host_link", "GB/s", 0.1, 1e4, kGiga, &Model::host_link_bytes_per_second},

      {"latency.packet", "ns", 0, 1e6, kPsPerNs, &Model::packet_ps},
      {"latency.dispatch", "ns", 0, 1e6, kPsPerNs, &Model::dispatch_ps},
      {"latency.completion", "ns", 0, 1e6, kPsPerNs, &Model::completion_ps},
      {"latency.host", "ns", 0, 1e6, kPsPerNs, &Model::host_latency_ps},
      {"latency.dma_start", "ns", 0, 1e6, kPsPerNs, &Model::dma_start_ps},
      {"latency.engine_start", "ns", 0, 1e6, kPsPerNs, &Model::engine_start_ps},
      {"latency.verb_issue", "ns", 0, 1e6, kPsPerNs, &Model::verb_issue_ps},
      {"latency.collective", "ns", 0, 1e6, kPsPerNs, &Model::collective_latency_ps},
      {"latency.barrier", "ns", 0, 1e6, kPsPerNs, &Model::barrier_ps},
      {"latency.noc_start", "ns", 0, 1e6, kPsPerNs, &Model::noc_start_ps},
      {"latency.noc_hop", "ns", 0, 1e6, kPsPerNs, &Model::noc_hop_ps},
      {"latency.copy_start", "ns", 0, 1e6, kPsPerNs, &Model::copy_start_ps},
      {"latency.fabric_allreduce", "ns", 0, 1e6, kPsPerNs, &Model::fabric_allreduce_ps},

      {"energy.hbm", "fJ/B", 0, 1e7, 1, &Model::hbm_fj_per_byte},
      {"energy.noc_hop", "fJ/B", 0, 1e7, 1, &Model::noc_fj_per_byte_hop},
      {"energy.collective", "fJ/B", 0, 1e7, 1, &Model::collective_fj_per_byte},
      {"energy.l1", "fJ/B", 0, 1e7, 1, &Model::l1_fj_per_byte},
      {"energy.host_link", "fJ/B", 0, 1e7, 1, &Model::host_fj_per_byte},
      {"energy.matrix_mxfp8_mxfp4", "fJ/FLOP", 0, 1e5, 1, &Model::matrix_fj_per_flop_mxfp8_mxfp4},
      {"energy.matrix_mxfp8_mxfp8", "fJ/FLOP", 0, 1e5, 1, &Model::matrix_fj_per_flop_mxfp8_mxfp8},
      {"energy.matrix_bf16", "fJ/FLOP", 0, 1e5, 1, &Model::matrix_fj_per_flop_bf16},
      {"energy.matrix_f32", "fJ/FLOP", 0, 1e5, 1, &Model::matrix_fj_per_flop_f32},
      {"energy.vector", "fJ/FLOP", 0, 1e6, 1, &Model::vector_fj_per_flop},
      {"energy.scalar_verb", "fJ/verb", 0, 1e8, 1, &Model::scalar_fj_per_verb},

      {"power.rated", "W", 1, 1e5, 1e3, &Model::rated_mw},
      {"power.sustained", "W", 1, 1e5, 1e3, &Model::sustained_mw},
  };
  return keys;
}

const std::vector<StaticKey>& static_keys() {
  static const std::vector<StaticKey> keys = [] {
    static constexpr struct {
      const char* text;
      std::uint32_t value;
    } kUnits[] =
        {
#define JAL_X(name, value, text) {text, value},
            JAL_UNIT_LIST(JAL_X)},
      kStates[] = {JAL_UNIT_STATE_LIST(JAL_X)};
#undef JAL_X
    std::vector<StaticKey> all;
    for (const auto& unit : kUnits) {
      for (const auto& state : kStates) {
        all.push_back({std::string("static.") + unit.text + "." + state.text, unit.value, state.value});
      }
    }
    return all;
  }();
  return keys;
}

}  // namespace jal::emu
