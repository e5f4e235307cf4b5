// The cores of one chip. See cluster.hpp.
#include "emulator/cores/cluster.hpp"

#include <jal/abi/instance.h>
#include <jal/abi/status.h>

#include <chrono>
#include <cstdio>
#include <cstring>

#include "emulator/cores/guard.hpp"
#include "emulator/cores/verbs.hpp"

namespace jal::emu {
namespace {

// Room for a kernel's frames; scratch belongs into L1 tiles. A sanitized build's frames are larger.
constexpr std::size_t kStackBytes = 256 * 1024;
// A job shorter than this is over before another worker has woken (futex wake-up across cores: 12-50 us).
constexpr std::uint64_t kWideNs = 20'000;

}  // namespace

CoreCluster::CoreCluster(const Model& model, Hbm& hbm, WorkerPool& workers, TraceTap& trace, TextPort& text,
                         const Options& options)
    : charges_(model),
      hbm_(hbm),
      workers_(workers),
      trace_(trace),
      text_(text),
      options_(options),
      // Guards of the memory sanitizer lie between tiles; they are not the kernel's.
      fibers_(kStackBytes, options.sanitize == 0 ? model.l1_bytes : 2ull * model.l1_bytes),
      buffers_(workers.threads()) {}

CoreCluster::~CoreCluster() = default;

std::int32_t CoreCluster::load_code(const void* module, std::uint64_t bytes, std::uint32_t* out_code,
                                    hal::FaultReport& fault) {
  return code_.load(module, bytes, out_code, fault);
}

void CoreCluster::unload_code(std::uint32_t code) { code_.unload(code); }

std::int32_t CoreCluster::run(const hal::CoreJob& job, hal::CoreJobResult& out) {
  const jal_kernel_function function = code_.find(job.code, job.kernel);
  if (function == nullptr) {
    out.status = out.fault.status = JAL_ERROR_NO_KERNEL;
    std::snprintf(out.fault.text, sizeof out.fault.text, "code %u has no kernel %u", job.code, job.kernel);
    return out.status;
  }
  return run_function(function, job, out);
}

std::int32_t CoreCluster::run_function(jal_kernel_function function, const hal::CoreJob& request,
                                       hal::CoreJobResult& out) {
  out = {};
  if (is_lost_) {
    out.status = out.fault.status = JAL_ERROR_DEVICE_LOST;
    std::snprintf(out.fault.text, sizeof out.fault.text,
                  "an earlier kernel ran past its deadline and native cores cannot be preempted");
    return out.status;
  }
  std::uint64_t& last_ns = host_ns_.try_emplace({request.code, request.kernel}, UINT64_MAX).first->second;
  const bool is_wide = workers_.threads() > 1 && last_ns >= kWideNs;
  Job::Setup setup;
  setup.request = &request;
  setup.function = function;
  setup.verbs = core_verbs(options_.sanitize != 0);
  setup.workers = is_wide ? workers_.threads() : 1;
  setup.sanitize = options_.sanitize;
  setup.is_traced = trace_.is_on();
  setup.text = &text_;
  Job job(charges_, hbm_, fibers_, buffers_, cores_, setup);
  const auto begin = std::chrono::steady_clock::now();
  {
    const std::uint64_t deadline_ns = options_.kernel_deadline_ns == 0 ? UINT64_MAX / 4 : options_.kernel_deadline_ns;
    Deadline deadline(job, deadline_ns);
    workers_.run(is_wide, [&](std::uint32_t worker) {
      guard_this_thread();
      deadline.enter();
      job.work(worker < setup.workers ? worker : 0);
      deadline.leave();
    });
  }
  last_ns = static_cast<std::uint64_t>((std::chrono::steady_clock::now() - begin).count());
  job.finish(out);
  if (out.status == JAL_ERROR_KERNEL_DEADLINE) is_lost_ = true;
  if (out.status != JAL_OK && request.entry != nullptr)
    std::memcpy(out.fault.kernel, request.entry->name, sizeof out.fault.kernel);
  if (out.status == JAL_ERROR_SANITIZER) {
    char line[512];
    const int n = std::snprintf(line, sizeof line, "JAL_SANITIZE %s: kernel %s, core %u, %s:%u\n", out.fault.text,
                                out.fault.kernel[0] != '\0' ? out.fault.kernel : "?", out.fault.core, out.fault.file,
                                out.fault.line);
    text_.write(request.client, out.fault.core,
                {line, static_cast<std::size_t>(n) < sizeof line ? static_cast<std::size_t>(n) : sizeof line - 1});
  }
  if (setup.is_traced) emit_spans(request, job);
  return out.status;
}

void CoreCluster::emit_spans(const hal::CoreJob& request, const Job& job) const {
  for (std::uint32_t i = 0; i < job.core_count(); ++i) {
    const CoreState& core = cores_[i];
    jal_trace_span span = {};
    span.start_ps = request.start_ps;
    span.end_ps = std::max(core.now_ps, core.end_ps);
    span.track = core.core_id;
    span.kind = JAL_SPAN_KERNEL;
    span.queue = request.queue;
    span.tag = request.tag;
    span.bytes = core.bytes_local + core.bytes_remote;
    trace_.emit(span, request.entry != nullptr ? request.entry->name : "function");
    for (const CoreState::Wait& wait : core.waits) {
      span.start_ps = wait.begin_ps;
      span.end_ps = wait.end_ps;
      span.kind = JAL_SPAN_WAIT;
      span.bytes = 0;
      trace_.emit(span, "wait");
    }
  }
}

}  // namespace jal::emu
