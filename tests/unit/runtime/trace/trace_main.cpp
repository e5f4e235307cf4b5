// Writes a trace of known spans to argv[1], for trace_test.py to read back.
#include <algorithm>
#include <cstdio>
#include <cstring>

#include "driver/base/error_frames.hpp"
#include "runtime/trace/recorder.hpp"

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  auto recorder = jal::rt::TraceRecorder::start(argv[1], {JAL_CLOCK_VIRTUAL, JAL_CLOCK_LIVE});
  if (!recorder.ok()) {
    std::fprintf(stderr, "%s\n", jal::drv::last_error_message());
    return 1;
  }
  const auto emit = [&](jal_trace_span span, const char* name) {
    std::memcpy(span.name, name, std::min(std::strlen(name), sizeof span.name));  // a full field has no terminator
    jal::rt::TraceRecorder::sink(recorder->get(), &span);
  };
  emit({1'000'500, 9'000'000, 0, 3, JAL_SPAN_KERNEL, 2, 77, 4096, {}}, "gemv");
  emit({2'000'000, 2'000'000, 0, 3, JAL_SPAN_WAIT, 2, 0, 0, {}}, "");
  emit({9'000'000, 12'000'000, 0, 3, JAL_SPAN_KERNEL, 2, UINT64_MAX, 0, {}}, "gemv");
  emit({0, 5'000'000, 1, JAL_TRACK_COPY, JAL_SPAN_COPY, 0, 0, 1ull << 40, {}},
       "a name of sixty-four characters, which fills the field to its edge");
  std::uint64_t spans = 0;
  if (!(*recorder)->stop(&spans).ok() || spans != 4) return 1;
  // A full disk is told, not swallowed.
  auto full = jal::rt::TraceRecorder::start("/dev/full", {0});
  if (!full.ok()) return 1;
  jal_trace_span span = {};
  jal::rt::TraceRecorder::sink(full->get(), &span);
  if ((*full)->stop(&spans).code() != JAL_ERROR_FILE_IO) return 1;
  return jal::rt::TraceRecorder::start("/nonexistent/x", {0}).code() == JAL_ERROR_FILE_IO ? 0 : 1;
}
