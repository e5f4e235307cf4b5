// Events. Contract: jal/event.h.
#include <jal/event.h>

#include "libjal/call.hpp"

using namespace jal::face;  // NOLINT: this file is nothing but its C face
using jal::rt::Event;

jal_status_t jal_event_create(jal_device_t device, jal_event_t* out_event) noexcept {
  return with(device, [&](jal::rt::Device& object) -> Status {
    JAL_RETURN_IF_ERROR(check_pointer(out_event, "out_event"));
    auto event = Event::create(object);
    if (!event.ok()) return event.status();
    return hand_out(std::move(*event), out_event);
  });
}

jal_status_t jal_event_destroy(jal_event_t event) noexcept {
  return with(event, [&](Event& object) -> Status {
    object.close();
    take_back(event, &object);
    return {};
  });
}

jal_status_t jal_event_record(jal_event_t event, jal_stream_t stream) noexcept {
  return with(event, [&](Event& object) -> Status {
    jal_status_t status = JAL_OK;
    jal::rt::Stream* const target = find(stream, &status);
    if (target == nullptr) return status;
    return object.record(*target);
  });
}

jal_status_t jal_event_query(jal_event_t event) noexcept {
  return with(event, [](Event& object) { return object.query(true); });
}

jal_status_t jal_event_synchronize(jal_event_t event, uint64_t deadline_ns) noexcept {
  return with(event, [&](Event& object) { return object.synchronize(deadline_ns); });
}

jal_status_t jal_event_wait(jal_event_t event, jal_stream_t stream) noexcept {
  return with(event, [&](Event& object) -> Status {
    jal_status_t status = JAL_OK;
    jal::rt::Stream* const target = find(stream, &status);
    if (target == nullptr) return status;
    return object.enqueue_wait(*target);
  });
}

jal_status_t jal_event_time_ps(jal_event_t event, uint64_t* out_ps) noexcept {
  return with(event, [&](Event& object) -> Status {
    JAL_RETURN_IF_ERROR(check_pointer(out_ps, "out_ps"));
    return object.time_ps(out_ps);
  });
}

jal_status_t jal_event_elapsed_ps(jal_event_t from, jal_event_t to, int64_t* out_ps,
                                  uint32_t* out_clock_kind) noexcept {
  return with(from, [&](Event& first) -> Status {
    jal_status_t status = JAL_OK;
    Event* const second = find(to, &status);
    if (second == nullptr) return status;
    JAL_RETURN_IF_ERROR(check_pointer(out_ps, "out_ps"));
    if (&first.device() != &second->device()) {
      return fail(JAL_ERROR_INVALID_ARGUMENT, "the events are of devices {} and {}, whose clocks do not compare",
                  first.device().index(), second->device().index());
    }
    std::uint64_t begin_ps = 0, end_ps = 0;
    JAL_RETURN_IF_ERROR(first.time_ps(&begin_ps));
    JAL_RETURN_IF_ERROR(second->time_ps(&end_ps));
    *out_ps = static_cast<std::int64_t>(end_ps - begin_ps);
    if (out_clock_kind != nullptr) *out_clock_kind = first.device().chip().clock_kind;
    return {};
  });
}
