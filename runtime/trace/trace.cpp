// Contract: trace.hpp.
#include "runtime/trace/trace.hpp"

#include <memory>
#include <mutex>
#include <vector>

#include "driver/base/error_frames.hpp"
#include "driver/telemetry_reader.hpp"
#include "runtime/trace/recorder.hpp"

namespace jal::rt {
namespace {

struct Running {
  std::mutex mutex;
  drv::Instance* instance = nullptr;
  std::unique_ptr<TraceRecorder> recorder;
};
Running& running() {
  static Running* const one = new Running;  // never destroyed: a device may be stepped during exit
  return *one;
}

}  // namespace

drv::Status Trace::start(drv::Instance& instance, const std::string& path) {
  Running& now = running();
  const std::lock_guard lock(now.mutex);
  if (now.recorder != nullptr) return drv::fail(JAL_ERROR_BUSY, "a trace is running; jal_trace_stop ends it");
  const auto telemetry = drv::TelemetryFile::open(instance.telemetry_path());
  if (!telemetry.ok()) return telemetry.status();
  auto recorder =
      TraceRecorder::start(path, std::vector<std::uint32_t>(instance.device_count(), telemetry->head().clock_kind));
  if (!recorder.ok()) return recorder.status();
  now.recorder = std::move(*recorder);
  now.instance = &instance;
  instance.api().set_trace_sink(instance.handle(), &TraceRecorder::sink, now.recorder.get());
  return {};
}

drv::Status Trace::stop(std::uint64_t* out_spans) {
  Running& now = running();
  const std::lock_guard lock(now.mutex);
  if (now.recorder == nullptr) {
    return drv::fail(JAL_ERROR_INVALID_ARGUMENT, "no trace is running; jal_trace_start begins one");
  }
  now.instance->api().set_trace_sink(now.instance->handle(), nullptr, nullptr);
  std::uint64_t spans = 0;
  const drv::Status status = now.recorder->stop(&spans);
  now.recorder.reset();
  now.instance = nullptr;
  if (status.ok() && out_spans != nullptr) *out_spans = spans;
  return status;
}

bool Trace::is_running() {
  Running& now = running();
  const std::lock_guard lock(now.mutex);
  return now.recorder != nullptr;
}

void Trace::abandon() {
  (void)running().recorder.release();  // its buffer is the parent's too; closing would write it twice
}

}  // namespace jal::rt
