// A device as the runtime sees it: its session, the event indices it hands out, the stream of its blocking calls.
//
// What it is not: memory or modules (their own files). Invariant: an event index belongs to one event at a time; it is
// reused with its timeline going on, or reset while nothing is pending. In a forked child it is leaked, never
// destroyed. Threads: any.
#pragma once
#include <jal/abi/event.h>

#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "driver/session.hpp"
#include "runtime/handle_table.hpp"

namespace jal::rt {

class Stream;

class Device {
 public:
  /// As Session::open; UNIMPLEMENTED when the device does not reach this process's memory.
  static Result<std::unique_ptr<Device>> open(drv::Instance& instance, std::uint32_t index);
  ~Device();
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  drv::Session& session() { return *session_; }
  const jal_chip_info& chip() const { return session_->chip(); }
  std::uint32_t index() const { return session_->device(); }
  std::uint64_t slice_mask() const { return low_bits(chip().slices); }
  std::uint64_t core_mask() const { return low_bits(chip().cores); }

  /// Whether any queue has packets that are not done.
  bool has_pending() const;

  /// An event index and the timeline value it stands at. EVENT_LIMIT, or what resetting says.
  struct EventSlot {
    std::uint32_t index = JAL_EVENT_NONE;
    std::uint64_t value = 0;
  };
  Result<EventSlot> take_event();
  /// `value`: the highest that any packet was told to signal.
  void give_event(EventSlot slot);

  /// Runs work(stream) on the device's own stream for blocking calls, one caller at a time, and waits for what it
  /// enqueued. A failure leaves the stream usable. TIMEOUT, or what the work says.
  template <typename Work>
  Status run_blocking(std::uint64_t deadline_ns, Work&& work) {
    JAL_RETURN_IF_ERROR(take_own_stream(deadline_ns));
    const std::lock_guard lock(own_stream_mutex_, std::adopt_lock);
    const Status status = work(*own_stream_);
    return finish_blocking(status, deadline_ns);
  }

 private:
  Device() = default;
  static std::uint64_t low_bits(std::uint32_t count) { return count >= 64 ? ~0ull : (1ull << count) - 1; }
  Status take_own_stream(std::uint64_t deadline_ns);
  Status finish_blocking(Status status, std::uint64_t deadline_ns);
  bool is_poisoned(std::uint32_t event_index) const;

  std::unique_ptr<drv::Session> session_;
  std::mutex mutex_;
  std::uint32_t fresh_event_ = JAL_EVENT_NONE + 1;
  std::vector<EventSlot> free_events_;      // their timelines go on
  std::vector<EventSlot> poisoned_events_;  // need a reset first
  std::mutex own_stream_mutex_;
  std::unique_ptr<Stream> own_stream_;
};

}  // namespace jal::rt
