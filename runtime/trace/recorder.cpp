// Contract: recorder.hpp.
#include "runtime/trace/recorder.hpp"

#include <algorithm>
#include <cstring>
#include <exception>

namespace jal::rt {
namespace {

std::uint64_t process_id(std::uint32_t device) { return std::uint64_t{device + 1} << 40; }

const char* kind_name(std::uint32_t kind) {
  switch (kind) {
    case JAL_SPAN_KERNEL:
      return "kernel";
    case JAL_SPAN_COPY:
      return "copy";
    case JAL_SPAN_WAIT:
      return "wait";
    default:
      return "span";
  }
}

}  // namespace

drv::Result<std::unique_ptr<TraceRecorder>> TraceRecorder::start(const std::string& path,
                                                                 const std::vector<std::uint32_t>& clock_kinds) {
  auto writer = PerfettoWriter::create(path);
  if (!writer.ok()) return writer.status();
  for (std::uint32_t device = 0; device < clock_kinds.size(); ++device) {
    const char* clock = clock_kinds[device] == JAL_CLOCK_VIRTUAL ? "virtual" : "live";
    (*writer)->define_process(process_id(device), device + 1, "device " + std::to_string(device) + " (" + clock + ")");
  }
  return std::unique_ptr<TraceRecorder>(new TraceRecorder(std::move(*writer)));
}

void TraceRecorder::sink(void* user, const jal_trace_span* span) {
  auto* recorder = static_cast<TraceRecorder*>(user);
  const std::lock_guard lock(recorder->mutex_);
  try {
    recorder->add(*span);
  } catch (const std::exception&) {
    // The host has no memory for a span: the trace has a gap, the device goes on. The count tells.
  }
}

std::uint64_t TraceRecorder::track_of(const jal_trace_span& span) {
  const bool is_wait = span.kind == JAL_SPAN_WAIT;
  // Copies first, then per core its kernels and its waits.
  const std::uint32_t rank = span.track == JAL_TRACK_COPY ? 0 : 1 + span.track * 2 + (is_wait ? 1 : 0);
  const std::uint64_t id = process_id(span.device) + 1 + rank;
  if (tracks_.insert(id).second) {
    const std::string name =
        span.track == JAL_TRACK_COPY ? "copies" : "core " + std::to_string(span.track) + (is_wait ? " waits" : "");
    writer_->define_track(id, process_id(span.device), name, rank);
  }
  return id;
}

void TraceRecorder::add(const jal_trace_span& span) {
  const std::string_view name(span.name, strnlen(span.name, sizeof span.name));
  const PerfettoWriter::Note notes[] = {{"start_ps", span.start_ps},
                                        {"end_ps", span.end_ps},
                                        {"queue", span.queue},
                                        {"tag", span.tag},
                                        {"bytes", span.bytes}};
  const std::uint64_t start_ns = span.start_ps / 1000;
  const std::uint64_t end_ns = std::max(span.end_ps / 1000, start_ns);
  writer_->slice(track_of(span), start_ns, end_ns, kind_name(span.kind), name, notes);
  ++spans_;
}

drv::Status TraceRecorder::stop(std::uint64_t* out_spans) {
  const std::lock_guard lock(mutex_);
  JAL_RETURN_IF_ERROR(writer_->finish());
  *out_spans = spans_;
  return {};
}

}  // namespace jal::rt
