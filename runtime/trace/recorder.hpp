// A trace being recorded: spans of devices become slices of a Perfetto file. Contract: libjal/include/jal/trace.h.
//
// What it is not: a sampler; spans come from the device with its own times. Per device there is one process, named
// with its clock, and in it a track of copies and per core a track of kernels and one of waits (a wait lies inside its
// kernel's span; tracks of their own need no order between the two). Times in the file are whole ns; the exact ps of
// start and end stand in each slice's arguments. Threads: sink from any.
#pragma once
#include <jal/abi/instance.h>

#include <cstdint>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "driver/base/status.hpp"
#include "runtime/trace/perfetto_writer.hpp"

namespace jal::rt {

class TraceRecorder {
 public:
  /// `clock_kinds`: JAL_CLOCK_* by device. FILE_IO.
  static drv::Result<std::unique_ptr<TraceRecorder>> start(const std::string& path,
                                                           const std::vector<std::uint32_t>& clock_kinds);

  /// The jal_trace_sink; `user` is the recorder. Remove it from the instance before stop().
  static void sink(void* user, const jal_trace_span* span);

  /// Closes the file. *out_spans: spans in it. FILE_IO.
  drv::Status stop(std::uint64_t* out_spans);

 private:
  explicit TraceRecorder(std::unique_ptr<PerfettoWriter> writer) : writer_(std::move(writer)) {}
  void add(const jal_trace_span& span);
  /// Identity of the span's track, defined in the file at first use.
  std::uint64_t track_of(const jal_trace_span& span);

  std::mutex mutex_;
  const std::unique_ptr<PerfettoWriter> writer_;
  std::set<std::uint64_t> tracks_;
  std::uint64_t spans_ = 0;
};

}  // namespace jal::rt
