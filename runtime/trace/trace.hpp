// The process's one running trace of its instance. Contract: libjal/include/jal/trace.h.
//
// Invariant: the instance has a sink exactly while a trace runs; it must be stopped before the instance closes.
// Threads: any.
#pragma once
#include <cstdint>
#include <string>

#include "driver/base/status.hpp"
#include "driver/instance.hpp"

namespace jal::rt {

class Trace {
 public:
  /// BUSY while one runs, FILE_IO, NO_TELEMETRY, BAD_TELEMETRY (the instance's file names the clock).
  static drv::Status start(drv::Instance& instance, const std::string& path);
  /// *out_spans may be nullptr. INVALID_ARGUMENT when none runs, FILE_IO when a write failed.
  static drv::Status stop(std::uint64_t* out_spans);
  static bool is_running();
  /// In the child of a fork: forgets the parent's trace without writing to its file.
  static void abandon();
};

}  // namespace jal::rt
