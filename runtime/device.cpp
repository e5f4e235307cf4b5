// Contract: device.hpp.
#include "runtime/device.hpp"

#include <atomic>

#include "driver/base/error_frames.hpp"
#include "runtime/stream.hpp"

namespace jal::rt {

using drv::add_frame;
using drv::fail;

Result<std::unique_ptr<Device>> Device::open(drv::Instance& instance, std::uint32_t index) {
  auto session = drv::Session::open(instance, index);
  if (!session.ok()) return session.status();
  if (((*session)->features() & JAL_FEATURE_HOST_VA) == 0) {
    return fail(JAL_ERROR_UNIMPLEMENTED,
                "device {} does not reach this process's memory (feature HOST_VA); this libjal needs it", index);
  }
  std::unique_ptr<Device> device(new Device);
  device->session_ = std::move(*session);
  return device;
}

Device::~Device() = default;

bool Device::has_pending() const {
  for (jal_queue_control& control : session_->region().queues) {
    if (std::atomic_ref(control.state).load(std::memory_order_acquire) == JAL_QUEUE_STATE_FREE) continue;
    const std::uint64_t completed = std::atomic_ref(control.completed).load(std::memory_order_acquire);
    if (completed < std::atomic_ref(control.published).load(std::memory_order_acquire)) return true;
  }
  return false;
}

bool Device::is_poisoned(std::uint32_t event_index) const {
  return std::atomic_ref(session_->region().events[event_index].value).load(std::memory_order_acquire) ==
         JAL_EVENT_POISONED;
}

Result<Device::EventSlot> Device::take_event() {
  {
    const std::lock_guard lock(mutex_);
    while (!free_events_.empty()) {
      const EventSlot slot = free_events_.back();
      free_events_.pop_back();
      // A signal that was still queued when the event was destroyed may have been poisoned since.
      if (!is_poisoned(slot.index)) return slot;
      poisoned_events_.push_back(slot);
    }
    if (fresh_event_ < JAL_EVENT_COUNT) return EventSlot{fresh_event_++, 0};
  }
  // Only poisoned ones are left. A reset is safe when no packet names them any more.
  const bool is_quiet = !has_pending();
  EventSlot slot;
  {
    const std::lock_guard lock(mutex_);
    if (!poisoned_events_.empty() && is_quiet) {
      slot = poisoned_events_.back();
      poisoned_events_.pop_back();
    }
  }
  if (slot.index == JAL_EVENT_NONE) {
    return fail(JAL_ERROR_EVENT_LIMIT, "device {}: all {} events are in use; destroy some{}", index(),
                JAL_EVENT_COUNT - 1, is_quiet ? "" : ", or synchronise so that failed ones can be used again");
  }
  const auto answer = session_->ask(JAL_MAILBOX_EVENT_RESET, {slot.index});
  if (answer.ok() && answer->status == JAL_OK) return EventSlot{slot.index, 0};
  give_event(slot);
  if (!answer.ok()) return add_frame(answer.status(), "resetting event {} of device {}", slot.index, index());
  return refused(*answer, "resetting event {} of device {}", slot.index, index());
}

void Device::give_event(EventSlot slot) {
  const std::lock_guard lock(mutex_);
  (is_poisoned(slot.index) ? poisoned_events_ : free_events_).push_back(slot);
}

Status Device::take_own_stream(std::uint64_t deadline_ns) {
  // While another thread's blocking call runs, driving the device is the best one can do.
  const Status taken = session_->wait([&] { return own_stream_mutex_.try_lock(); }, deadline_ns);
  if (taken.code() == JAL_ERROR_TIMEOUT) {
    return fail(JAL_ERROR_TIMEOUT, "device {}: other threads' blocking calls took all the time; nothing was started",
                index());
  }
  if (!taken.ok()) return session_->lost();
  if (own_stream_ != nullptr) return {};
  auto made = Stream::create(*this, {});
  if (!made.ok()) {
    own_stream_mutex_.unlock();
    return add_frame(made.status(), "making the stream of blocking calls");
  }
  own_stream_ = std::move(*made);
  return {};
}

Status Device::finish_blocking(Status status, std::uint64_t deadline_ns) {
  // What was enqueued before a refusal still runs: the caller's buffers must be free of it when the call returns.
  const Status waited = own_stream_->queue().wait(deadline_ns);
  if (status.ok()) status = waited;
  // The next caller must not find this one's failure.
  if (own_stream_->queue().is_poisoned() && waited.code() != JAL_ERROR_DEVICE_LOST) {
    const drv::MessageKeeper keep;
    (void)own_stream_->queue().recover();
  }
  return status;
}

}  // namespace jal::rt
