// Streams. Contract: jal/stream.h.
#include <jal/stream.h>

#include "libjal/call.hpp"

using namespace jal::face;  // NOLINT: this file is nothing but its C face
using jal::rt::Stream;

jal_status_t jal_stream_create(jal_device_t device, const jal_stream_options* options,
                               jal_stream_t* out_stream) noexcept {
  return with(device, [&](jal::rt::Device& object) -> Status {
    JAL_RETURN_IF_ERROR(check_pointer(out_stream, "out_stream"));
    jal::drv::QueueOptions wanted;
    if (options != nullptr) {
      JAL_RETURN_IF_ERROR(check_struct(options, "jal_stream_options"));
      JAL_RETURN_IF_ERROR(check_reserved(options->reserved, "jal_stream_options"));
      JAL_RETURN_IF_ERROR(check_flags(options->flags, JAL_STREAM_NO_WAIT, "jal_stream_options"));
      if (options->depth != 0) wanted.depth = options->depth;
      if (options->argument_bytes != 0) wanted.argument_bytes = options->argument_bytes;
      if (options->full_timeout_ns != 0) wanted.full_timeout_ns = options->full_timeout_ns;
      wanted.waits_for_room = (options->flags & JAL_STREAM_NO_WAIT) == 0;
    }
    auto stream = Stream::create(object, wanted);
    if (!stream.ok()) return stream.status();
    return hand_out(std::move(*stream), out_stream);
  });
}

jal_status_t jal_stream_destroy(jal_stream_t stream) noexcept {
  return with(stream, [&](Stream& object) -> Status {
    jal::drv::Queue& queue = object.queue();
    if (!queue.is_idle()) {
      return fail(JAL_ERROR_QUEUE_BUSY,
                  "queue {} of device {} has {} packets pending; jal_stream_synchronize or jal_stream_recover first",
                  queue.index(), object.device().index(), queue.published() - queue.completed());
    }
    take_back(stream, &object);
    return {};
  });
}

jal_status_t jal_stream_synchronize(jal_stream_t stream, uint64_t deadline_ns) noexcept {
  return with(stream, [&](Stream& object) { return object.queue().wait(deadline_ns); });
}

jal_status_t jal_stream_query(jal_stream_t stream) noexcept {
  return with(stream, [](Stream& object) { return object.queue().query(); });
}

jal_status_t jal_stream_recover(jal_stream_t stream, uint64_t* out_dropped) noexcept {
  return with(stream, [&](Stream& object) -> Status {
    auto dropped = object.queue().recover();
    if (!dropped.ok()) return dropped.status();
    if (out_dropped != nullptr) *out_dropped = *dropped;
    return {};
  });
}

jal_status_t jal_stream_get_error(jal_stream_t stream, jal_error_record* out_record) noexcept {
  return with(stream, [&](Stream& object) -> Status {
    JAL_RETURN_IF_ERROR(check_pointer(out_record, "out_record"));
    if (!object.queue().is_poisoned()) return JAL_ERROR_NOT_READY;
    const auto record = object.queue().failure_record();
    if (!record) {
      return fail(JAL_ERROR_UPSTREAM_FAILED, "the record of the failure was overwritten by later ones");
    }
    *out_record = *record;
    return {};
  });
}

jal_status_t jal_stream_set_phase(jal_stream_t stream, uint32_t phase) noexcept {
  return with(stream, [&](Stream& object) { return object.set_phase(phase); });
}

jal_status_t jal_stream_count_tokens(jal_stream_t stream, uint32_t phase, uint64_t tokens) noexcept {
  return with(stream, [&](Stream& object) { return object.count_tokens(phase, tokens); });
}

jal_status_t jal_stream_progress(jal_stream_t stream, uint64_t* out_enqueued, uint64_t* out_completed) noexcept {
  return with(stream, [&](Stream& object) -> Status {
    if (out_completed != nullptr) *out_completed = object.queue().completed();
    if (out_enqueued != nullptr) *out_enqueued = object.queue().published();
    return {};
  });
}
