// Contract: event.hpp.
#include "runtime/event.hpp"

#include "driver/base/error_frames.hpp"
#include "driver/error_record.hpp"

namespace jal::rt {

using drv::fail;

Result<std::unique_ptr<Event>> Event::create(Device& device) {
  auto slot = device.take_event();
  if (!slot.ok()) return slot.status();
  std::unique_ptr<Event> event(new Event(device));
  event->index_ = slot->index;
  event->base_ = slot->value;
  event->recorded_ = slot->value;
  return event;
}

jal_status_t Event::look() {
  const std::uint64_t target = recorded_.load(std::memory_order_acquire);
  if (target == base_) return JAL_ERROR_EVENT_NOT_RECORDED;
  const std::uint64_t value = std::atomic_ref(mirror().value).load(std::memory_order_acquire);
  if (value == JAL_EVENT_POISONED) return JAL_ERROR_UPSTREAM_FAILED;
  return value >= target ? JAL_OK : JAL_ERROR_NOT_READY;
}

Status Event::explain(jal_status_t code) {
  switch (code) {
    case JAL_ERROR_EVENT_NOT_RECORDED:
      return fail(code, "the event was never recorded; jal_event_record it on a stream first");
    case JAL_ERROR_UPSTREAM_FAILED: {
      const jal_event_mirror mirrored = mirror();
      if (const auto record = device_.session().record(mirrored.record)) {
        return fail(code, "the event is poisoned by record {}, {}: {}", record->id, drv::status_name(record->status),
                    drv::describe(*record));
      }
      return fail(code, "the event is poisoned ({}); its record {} was overwritten by later ones",
                  drv::status_text(mirrored.status), mirrored.record);
    }
    default:
      return code;
  }
}

Status Event::record(Stream& stream) {
  if (&stream.device() != &device_) {
    return fail(JAL_ERROR_INVALID_ARGUMENT, "the event is of device {}, the stream of device {}", device_.index(),
                stream.device().index());
  }
  if (std::atomic_ref(mirror().value).load(std::memory_order_acquire) == JAL_EVENT_POISONED) {
    auto fresh = device_.take_event();
    if (!fresh.ok()) return drv::add_frame(fresh.status(), "replacing a poisoned event");
    device_.give_event({index_.load(std::memory_order_relaxed), recorded_.load(std::memory_order_relaxed)});
    recorded_.store(fresh->value, std::memory_order_relaxed);
    base_ = fresh->value;
    index_.store(fresh->index, std::memory_order_release);
    queue_ = 0;
  }
  const std::uint64_t before = recorded_.load(std::memory_order_relaxed);
  jal_packet packet{};
  packet.signal_event = index_.load(std::memory_order_relaxed);
  packet.signal_value = before + 1;
  if (queue_ != stream.queue().generation() && before != base_ && look() == JAL_ERROR_NOT_READY) {
    // The mark is still on its way in another stream: its value must come first.
    packet.wait_event = packet.signal_event;
    packet.wait_value = before;
  }
  JAL_RETURN_IF_ERROR(stream.enqueue(JAL_PACKET_EVENT_SIGNAL, packet));
  queue_ = stream.queue().generation();
  recorded_.store(before + 1, std::memory_order_release);
  return {};
}

Status Event::query(bool drive) {
  jal_status_t code = look();
  if (code == JAL_ERROR_NOT_READY && drive) {
    const std::uint32_t result = device_.session().step();
    code = look();
    if (code == JAL_ERROR_NOT_READY && result == JAL_STEP_LOST) return device_.session().lost();
  }
  return finish_wait(code);
}

Status Event::synchronize(std::uint64_t deadline_ns) {
  if (const jal_status_t code = look(); code == JAL_ERROR_EVENT_NOT_RECORDED) return explain(code);
  jal_status_t code = JAL_OK;
  const Status status = device_.session().wait(
      [&] {
        code = look();
        return code != JAL_ERROR_NOT_READY;
      },
      deadline_ns);
  if (status.code() == JAL_ERROR_TIMEOUT) {
    return fail(JAL_ERROR_TIMEOUT, "the event of device {} was not reached before the deadline; the work goes on",
                device_.index());
  }
  if (!status.ok()) return device_.session().lost();
  return finish_wait(code);
}

Status Event::finish_wait(jal_status_t code) {
  if (code != JAL_OK) return explain(code);
  // What this thread enqueues from here on comes after the event, in device time as well.
  device_.session().observe_ps(std::atomic_ref(mirror().end_ps).load(std::memory_order_acquire));
  return {};
}

Status Event::enqueue_wait(Stream& stream) {
  if (&stream.device() != &device_) {
    return fail(JAL_ERROR_INVALID_ARGUMENT, "the event is of device {}, the stream of device {}", device_.index(),
                stream.device().index());
  }
  const std::uint64_t target = recorded_.load(std::memory_order_acquire);
  if (target == base_) return explain(JAL_ERROR_EVENT_NOT_RECORDED);
  jal_packet packet{};
  packet.wait_event = index_.load(std::memory_order_relaxed);
  packet.wait_value = target;
  return stream.enqueue(JAL_PACKET_EVENT_WAIT, packet);
}

Status Event::time_ps(std::uint64_t* out_ps) {
  const jal_status_t code = look();
  if (code == JAL_ERROR_NOT_READY) {
    return fail(code, "the event was not reached yet, so it has no time; synchronise it first");
  }
  if (code != JAL_OK) return explain(code);
  // A later signal may come in between; its time belongs to its value, so both are read until they fit.
  jal_event_mirror& words = mirror();
  for (;;) {
    const std::uint64_t value = std::atomic_ref(words.value).load(std::memory_order_acquire);
    const std::uint64_t end_ps = std::atomic_ref(words.end_ps).load(std::memory_order_acquire);
    if (std::atomic_ref(words.value).load(std::memory_order_acquire) == value) {
      *out_ps = end_ps;
      return {};
    }
  }
}

}  // namespace jal::rt
