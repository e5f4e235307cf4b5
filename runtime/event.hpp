// An event: a mark that streams reach. Each record moves the timeline of its index forward by one.
//
// What it is not: a timer of the host; its times are the device's. Invariant: the mirror is written by firmware alone;
// `recorded` is the value the latest record waits for. A poisoned event takes a fresh index at its next record.
// Threads: record by one thread at a time; query, synchronize and times from any.
#pragma once
#include <atomic>
#include <cstdint>
#include <memory>

#include "runtime/device.hpp"
#include "runtime/stream.hpp"

namespace jal::rt {

class Event {
 public:
  static Result<std::unique_ptr<Event>> create(Device& device);
  ~Event() = default;
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;
  /// Gives the index back.
  void close() {
    device_.give_event({index_.load(std::memory_order_relaxed), recorded_.load(std::memory_order_relaxed)});
  }

  Device& device() { return device_; }
  Status record(Stream& stream);
  /// OK, NOT_READY (bare), EVENT_NOT_RECORDED, UPSTREAM_FAILED. Looks only; `drive` runs one unit of work first if
  /// needed.
  Status query(bool drive);
  Status synchronize(std::uint64_t deadline_ns);
  Status enqueue_wait(Stream& stream);
  /// Device time at which the latest record was reached, ps.
  Status time_ps(std::uint64_t* out_ps);

 private:
  explicit Event(Device& device) : device_(device) {}
  jal_event_mirror& mirror() { return device_.session().region().events[index_.load(std::memory_order_acquire)]; }
  /// Bare code: OK, NOT_READY, EVENT_NOT_RECORDED, UPSTREAM_FAILED.
  jal_status_t look();
  Status explain(jal_status_t code);
  Status finish_wait(jal_status_t code);

  Device& device_;
  std::atomic<std::uint32_t> index_{JAL_EVENT_NONE};
  std::uint64_t base_ = 0;  // where the index stood when it was taken: nothing recorded yet
  std::atomic<std::uint64_t> recorded_{0};
  std::uint64_t queue_ = 0;  // generation of the queue of the latest record
};

}  // namespace jal::rt
