// An instance of chips in this process, as the driver holds it.
//
// What it is not: a session with a chip (session.hpp). Invariant: open while this object lives; all sessions end
// before it. In the child of a fork it must be leaked, never destroyed. Threads: as jal/abi/instance.h says.
#pragma once
#include <jal/abi/instance.h>

#include <memory>
#include <string>

#include "driver/base/status.hpp"

namespace jal::drv {

class Instance {
 public:
  /// Options as in jal/abi/instance.h. Statuses and words are those of the instance's `open`.
  static Result<std::unique_ptr<Instance>> open(const jal_instance_api& api, const jal_instance_options& options);
  ~Instance() { api_.close(instance_); }
  Instance(const Instance&) = delete;
  Instance& operator=(const Instance&) = delete;

  const jal_instance_api& api() const { return api_; }
  jal_instance* handle() const { return instance_; }
  std::uint32_t device_count() const { return device_count_; }
  const char* telemetry_path() const { return api_.telemetry_path(instance_); }

 private:
  Instance(const jal_instance_api& api, jal_instance* instance)
      : api_(api), instance_(instance), device_count_(api.device_count(instance)) {}

  const jal_instance_api& api_;
  jal_instance* const instance_;
  const std::uint32_t device_count_;
};

}  // namespace jal::drv
