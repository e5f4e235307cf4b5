// The library in this process: the instance of chips, its devices, and everything that ends with them.
//
// What it is not: thread-safe against shutdown; nobody may be inside another call then. Invariant: at most one instance
// is open; after fork the child has none and leaks its parent's. Threads: init, shutdown and device() from any.
#pragma once
#include <jal/abi/instance.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "driver/instance.hpp"
#include "driver/telemetry_reader.hpp"
#include "runtime/device.hpp"

namespace jal::rt {

struct InitOptions {
  std::uint32_t device_count = 0;
  std::string model;  // empty: the environment's, else the default
  std::string trace_path;
  std::uint32_t worker_threads = 0;
  std::uint32_t sanitize = 0;
  std::uint64_t host_budget_bytes = 0;
  std::uint64_t kernel_deadline_ns = 0;
  bool operator==(const InitOptions&) const = default;
};

class Library {
 public:
  /// Opens the instance, or counts up. `options` nullptr: the defaults, or whatever is open. `api` nullptr: the library
  /// found by the loader; tests give their own. INVALID_ARGUMENT (open with other options), and those of loading and
  /// opening.
  static Status init(const InitOptions* options, const jal_instance_api* api = nullptr);
  /// Counts down; the last one ends everything. NOT_INITIALISED, FORKED.
  static Status shutdown();
  /// NOT_INITIALISED, FORKED.
  static Result<Library*> get();

  ~Library();
  Library(const Library&) = delete;
  Library& operator=(const Library&) = delete;

  drv::Instance& instance() { return *instance_; }
  std::uint32_t device_count() const { return instance_->device_count(); }
  /// The device's handle; opens it on first use. NO_DEVICE, and those of Device::open.
  Result<std::uint64_t> device(std::uint32_t index);

  /// (device, core, text): what kernels print. Empty: standard error.
  using TextSink = std::function<void(std::uint32_t device, std::uint32_t core, const char* text, std::uint64_t bytes)>;
  void set_text_sink(TextSink sink);

  /// A whole telemetry page of a device. NO_DEVICE, NO_TELEMETRY, BAD_TELEMETRY.
  Status read_telemetry(std::uint32_t device, jal_telemetry_page* out);

  /// What a host buffer's address belongs to; see host_buffers.hpp.
  std::mutex& mutex() { return mutex_; }

 private:
  explicit Library(const InitOptions& options) : options_(options) {}
  static Status open(const InitOptions& options, const jal_instance_api* api);
  void apply_text_sink(drv::Session& session, std::uint32_t device);

  const InitOptions options_;
  std::uint32_t uses_ = 1;
  std::unique_ptr<drv::Instance> instance_;
  std::mutex mutex_;
  struct OpenDevice {
    std::unique_ptr<Device> device;
    std::uint64_t handle = 0;
  };
  std::vector<OpenDevice> devices_;
  TextSink text_sink_;
  drv::TelemetryFile telemetry_;
  bool has_telemetry_ = false;
};

}  // namespace jal::rt
