// Contract: library.hpp.
#include "runtime/library.hpp"

#include <pthread.h>

#include <atomic>
#include <cstdlib>
#include <utility>

#include "driver/base/error_frames.hpp"
#include "driver/base/log.hpp"
#include "driver/loader.hpp"
#include "runtime/event.hpp"
#include "runtime/host_buffers.hpp"
#include "runtime/memory.hpp"
#include "runtime/module.hpp"
#include "runtime/stream.hpp"
#include "runtime/trace/trace.hpp"

namespace jal::rt {

using drv::add_frame;
using drv::fail;

namespace {

/// Guards the two below. Never destroyed, like everything that a call during exit may need.
std::mutex& library_mutex() {
  static std::mutex* const mutex = new std::mutex;
  return *mutex;
}
std::atomic<Library*> g_library{nullptr};
std::atomic<bool> g_is_forked{false};  // this process is a child of one that had the library open

/// The child starts without a library: its parent's is left alone, with its handles telling so.
void watch_forks() {
  static std::once_flag once;
  std::call_once(once, [] {
    pthread_atfork(
        [] {
          library_mutex().lock();
          handles().lock_for_fork();
        },
        [] {
          handles().unlock_after_fork();
          library_mutex().unlock();
        },
        [] {
          if (g_library.exchange(nullptr) != nullptr) g_is_forked = true;
          HandleTable::enter_child();
          Trace::abandon();
          handles().unlock_after_fork();
          library_mutex().unlock();
        });
  });
}

template <typename Object>
void destroy(const HandleTable::Live& live) {
  handles().remove(live.handle);
  delete static_cast<Object*>(live.object);
}

}  // namespace

Result<Library*> Library::get() {
  Library* library = g_library.load(std::memory_order_acquire);
  if (library != nullptr) return library;
  if (g_is_forked.load(std::memory_order_relaxed)) {
    return fail(JAL_ERROR_FORKED,
                "the library was opened by the parent of this process before fork; call jal_init here");
  }
  return fail(JAL_ERROR_NOT_INITIALISED, "the library is not initialised; call jal_init first");
}

Status Library::init(const InitOptions* options, const jal_instance_api* api) {
  const std::lock_guard lock(library_mutex());
  Library* library = g_library.load(std::memory_order_relaxed);
  if (library == nullptr) return open(options != nullptr ? *options : InitOptions{}, api);
  if (options != nullptr && !(*options == library->options_)) {
    return fail(JAL_ERROR_INVALID_ARGUMENT,
                "jal_init was called before with other options; pass the same ones or NULL, or jal_shutdown first");
  }
  ++library->uses_;
  return {};
}

Status Library::open(const InitOptions& options, const jal_instance_api* api) {
  watch_forks();
  if (api == nullptr) {
    auto loaded = drv::load_instance_api();
    if (!loaded.ok()) return add_frame(loaded.status(), "initialising libjal");
    api = *loaded;
  }
  std::unique_ptr<Library> library(new Library(options));
  jal_instance_options wanted{};
  wanted.struct_size = sizeof wanted;
  wanted.device_count = options.device_count;
  wanted.model = options.model.empty() ? nullptr : options.model.c_str();
  wanted.worker_threads = options.worker_threads;
  wanted.sanitize = options.sanitize;
  wanted.host_budget_bytes = options.host_budget_bytes;
  wanted.kernel_deadline_ns = options.kernel_deadline_ns;
  auto instance = drv::Instance::open(*api, wanted);
  if (!instance.ok()) return add_frame(instance.status(), "initialising libjal");
  library->instance_ = std::move(*instance);
  library->devices_.resize(library->instance_->device_count());
  std::string trace_path = options.trace_path;
  if (const char* set = std::getenv("JAL_TRACE"); trace_path.empty() && set != nullptr) trace_path = set;
  if (!trace_path.empty()) {
    const Status started = Trace::start(*library->instance_, trace_path);
    if (!started.ok()) return add_frame(started, "initialising libjal");
  }
  g_is_forked = false;
  g_library.store(library.release(), std::memory_order_release);
  return {};
}

Status Library::shutdown() {
  const std::lock_guard lock(library_mutex());
  auto library = get();
  if (!library.ok()) return library.status();
  if (--(*library)->uses_ != 0) return {};
  g_library.store(nullptr, std::memory_order_release);
  delete *library;
  return {};
}

Library::~Library() {
  if (instance_ == nullptr) return;
  if (Trace::is_running() && !Trace::stop(nullptr).ok())
    drv::log(drv::LogLevel::error, "{}", drv::last_error_message());
  // Streams go before what their pending work uses; a module owns its kernels.
  const std::vector<HandleTable::Live> live = handles().live();
  for (const Kind kind : {Kind::stream, Kind::event, Kind::kernel, Kind::module, Kind::memory, Kind::device}) {
    for (const HandleTable::Live& one : live) {
      if (one.kind != kind) continue;
      switch (kind) {
        case Kind::stream:
          destroy<Stream>(one);
          break;
        case Kind::event:
          destroy<Event>(one);
          break;
        case Kind::module:
          destroy<Module>(one);
          break;
        case Kind::memory:
          destroy<Memory>(one);
          break;
        case Kind::kernel:  // part of its module
        case Kind::device:  // owned below
          handles().remove(one.handle);
          break;
      }
    }
  }
  HostBuffers::release_all();
  devices_.clear();  // ends the sessions: firmware takes back pages and modules
}

Result<std::uint64_t> Library::device(std::uint32_t index) {
  if (index >= devices_.size()) {
    return fail(JAL_ERROR_NO_DEVICE, "device {}: there are {} (0..{}); raise JAL_DEVICES or device_count (at most 8)",
                index, devices_.size(), devices_.size() - 1);
  }
  const std::lock_guard lock(mutex_);
  OpenDevice& slot = devices_[index];
  if (slot.device != nullptr) return slot.handle;
  auto device = Device::open(*instance_, index);
  if (!device.ok()) return device.status();
  auto handle = handles().insert(Kind::device, device->get());
  if (!handle.ok()) return handle.status();
  apply_text_sink((*device)->session(), index);
  slot.device = std::move(*device);
  slot.handle = *handle;
  return slot.handle;
}

void Library::apply_text_sink(drv::Session& session, std::uint32_t device) {
  if (!text_sink_) {
    session.text().set_sink({});
    return;
  }
  session.text().set_sink([sink = text_sink_, device](std::uint32_t core, const char* text, std::uint64_t bytes) {
    sink(device, core, text, bytes);
  });
}

void Library::set_text_sink(TextSink sink) {
  const std::lock_guard lock(mutex_);
  text_sink_ = std::move(sink);
  for (std::uint32_t i = 0; i < devices_.size(); ++i) {
    if (devices_[i].device != nullptr) apply_text_sink(devices_[i].device->session(), i);
  }
}

Status Library::read_telemetry(std::uint32_t device, jal_telemetry_page* out) {
  {
    const std::lock_guard lock(mutex_);
    if (!has_telemetry_) {
      auto file = drv::TelemetryFile::open(instance_->telemetry_path());
      if (!file.ok()) return file.status();
      telemetry_ = std::move(*file);
      has_telemetry_ = true;
    }
  }
  return telemetry_.read(device, out);
}

}  // namespace jal::rt
