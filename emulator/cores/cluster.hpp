// The cores of one chip: loads kernels' code and runs jobs. Contract: jal/hal/cores.hpp.
//
// Threads: the stepping thread calls; workers of the pool help.
#pragma once
#include <cstdint>
#include <jal/hal/cores.hpp>

#include "emulator/cores/worker_pool.hpp"
#include "emulator/device/text_port.hpp"
#include "emulator/device/trace_tap.hpp"
#include "emulator/hbm/hbm.hpp"
#include "emulator/model/model.hpp"

namespace jal::emu {

class CoreCluster {
 public:
  struct Options {
    std::uint32_t sanitize = 0;  // JAL_SANITIZE_*
    std::uint64_t kernel_deadline_ns = 0;
  };

  /// All references outlive the cluster. trace: spans of cores; text: what kernels print and sanitizers report.
  CoreCluster(const Model& model, Hbm& hbm, WorkerPool& workers, TraceTap& trace, TextPort& text,
              const Options& options);
  ~CoreCluster();
  CoreCluster(const CoreCluster&) = delete;
  CoreCluster& operator=(const CoreCluster&) = delete;

  /// See hal::code_load, hal::code_unload and hal::cores_start.
  std::int32_t load_code(const void* module, std::uint64_t bytes, std::uint32_t* out_code, hal::FaultReport& fault);
  void unload_code(std::uint32_t code);
  std::int32_t run(const hal::CoreJob& job, hal::CoreJobResult& out);
};

}  // namespace jal::emu
