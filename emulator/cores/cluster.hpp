// The cores of one chip: loads kernels' code and runs jobs. Contract: jal/hal/cores.hpp.
//
// Threads: the stepping thread calls; workers of the pool help. One job at a time.
#pragma once
#include <jal/kernel/core_abi.h>

#include <cstdint>
#include <jal/hal/cores.hpp>
#include <map>
#include <utility>
#include <vector>

#include "emulator/cores/charges.hpp"
#include "emulator/cores/code.hpp"
#include "emulator/cores/job.hpp"
#include "emulator/cores/worker_pool.hpp"
#include "emulator/device/text_port.hpp"
#include "emulator/device/trace_tap.hpp"
#include "emulator/hbm/hbm.hpp"
#include "emulator/model/model.hpp"

namespace jal::emu {

class CoreCluster {
 public:
  struct Options {
    std::uint32_t sanitize = 0;            // JAL_SANITIZE_*
    std::uint64_t kernel_deadline_ns = 0;  // host time one job may take; 0: no limit
  };

  /// All references outlive the cluster. trace: spans of cores; text: what kernels print and sanitizers report.
  CoreCluster(const Model& model, Hbm& hbm, WorkerPool& workers, TraceTap& trace, TextPort& text,
              const Options& options);
  ~CoreCluster();
  CoreCluster(const CoreCluster&) = delete;
  CoreCluster& operator=(const CoreCluster&) = delete;

  /// See hal::code_load, hal::code_unload and hal::cores_start. After a kernel missed its deadline every run() answers
  /// DEVICE_LOST.
  std::int32_t load_code(const void* module, std::uint64_t bytes, std::uint32_t* out_code, hal::FaultReport& fault);
  void unload_code(std::uint32_t code);
  std::int32_t run(const hal::CoreJob& job, hal::CoreJobResult& out);
  /// The same for a function of this process: tests and benchmarks. job.code and job.kernel are not used; job.entry may
  /// be null.
  std::int32_t run_function(jal_kernel_function function, const hal::CoreJob& job, hal::CoreJobResult& out);

  /// Fibers made so far: cores that never block share one per worker.
  std::size_t fibers_made() const { return fibers_.made(); }

 private:
  void emit_spans(const hal::CoreJob& job, const Job& running) const;

  const Charges charges_;
  Hbm& hbm_;
  WorkerPool& workers_;
  TraceTap& trace_;
  TextPort& text_;
  const Options options_;
  CodeTable code_;
  FiberPool fibers_;
  SharedPool buffers_;
  std::vector<CoreState> cores_;
  std::map<std::pair<std::uint32_t, std::uint32_t>, std::uint64_t>
      host_ns_;  // last run of a kernel, to decide whether waking workers pays
  bool is_lost_ = false;
};

}  // namespace jal::emu
