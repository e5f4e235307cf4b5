// The chip's model file in memory: every constant of time and energy the emulator charges.
//
// What it is not: a place for numbers. They live in emulator/model/*.toml, each with its source or "assumption
// because"; this struct only names them. Units are in the names: _ps picoseconds, _fj femtojoules, _mw milliwatts, _uw
// microwatts. Invariant: a loaded model is complete and inside its documented ranges; load_model() refuses anything
// else.
#pragma once
#include <jal/abi/power.h>

#include <cstdint>
#include <map>
#include <string>

namespace jal::emu {

/// One row of the file, for reports: value, unit and where it comes from.
struct ModelFigure {
  double value = 0;
  std::string unit;
  std::string source;
};

struct Model {
  std::string name;
  // Organisation.
  std::uint32_t cores = 0, grid_rows = 0, grid_cols = 0;  // cores = rows * cols <= 64; one HBM slice a core
  std::uint64_t slice_bytes = 0;                          // usable by clients, multiple of 64 KiB
  std::uint64_t reserved_bytes_per_slice = 0;             // firmware's
  std::uint32_t l1_bytes = 0;
  std::uint64_t clock_hz = 0;
  // Rates. Bytes or operations per second.
  double hbm_bytes_per_second_per_slice = 0;
  double matrix_flops_mxfp4_mxfp4 = 0, matrix_flops_mxfp8_mxfp4 = 0, matrix_flops_mxfp8_mxfp8 = 0;  // whole chip
  double matrix_flops_bf16_bf16 = 0;       // an MX weight with BF16 activations runs at this rate too
  double matrix_flops_bf16_f32 = 0;        // FP32 activations as three BF16 passes
  double vector_flops_per_second = 0;      // one core, simple FP32 operation on one element
  double collective_bytes_per_second = 0;  // into each core
  double noc_link_bytes_per_second = 0;
  double remote_hbm_bytes_per_second = 0;  // one core reading another slice over the NoC
  double host_link_bytes_per_second = 0;   // PCIe Gen 5 x16 payload
  // Latencies.
  std::uint64_t packet_ps = 0, dispatch_ps = 0, completion_ps = 0, host_latency_ps = 0;
  std::uint64_t dma_start_ps = 0;           // one load or store of a core: issue to first byte
  std::uint64_t engine_start_ps = 0;        // matrix or vector engine: issue to first result
  std::uint64_t verb_issue_ps = 0;          // scalar unit: issue one verb
  std::uint64_t collective_latency_ps = 0;  // last arrival to first byte at every member, tree of 64
  std::uint64_t barrier_ps = 0;             // last arrival to release of all
  std::uint64_t noc_hop_ps = 0, noc_start_ps = 0;
  std::uint64_t copy_start_ps = 0;  // device copy engine
  std::uint64_t fabric_allreduce_ps =
      0;  // small all-reduce among 8 chips; not executed by one chip, see layer_latency bench
  // Dynamic energy.
  double hbm_fj_per_byte = 0, noc_fj_per_byte_hop = 0, collective_fj_per_byte = 0, l1_fj_per_byte = 0,
         host_fj_per_byte = 0;
  double matrix_fj_per_flop_mxfp8_mxfp4 = 0, matrix_fj_per_flop_mxfp8_mxfp8 = 0, matrix_fj_per_flop_bf16 = 0,
         matrix_fj_per_flop_f32 = 0;
  double vector_fj_per_flop = 0, scalar_fj_per_verb = 0;
  // Static power, whole package, by unit and state.
  std::uint64_t static_uw[JAL_UNIT_COUNT][JAL_UNIT_STATE_COUNT] = {};
  std::uint32_t rated_mw = 0, sustained_mw = 0;

  std::map<std::string, ModelFigure> figures;  // everything above by its name in the file
};

/// Loads `name_or_path`: a path when it contains '/', else NAME.toml beside the library (../share/jal/models, the build
/// tree's share/jal/models) or in $JAL_MODEL_PATH. On failure returns false and a message naming file, key, value and
/// limits.
bool load_model(const std::string& name_or_path, Model* out, std::string* error);

}  // namespace jal::emu
