/* Events: marks in streams. Recording one moves its timeline forward by one when the stream gets there.
 *
 * An event belongs to its device. Queries and waits concern the latest record call. When the recorded work failed, or
 * was dropped behind a failure, the event is poisoned: waits give UPSTREAM_FAILED; recording it again mends it. */
#ifndef JAL_EVENT_H
#define JAL_EVENT_H

#include <jal/abi/event.h>
#include <jal/api.h>

JAL_BEGIN_C

/* EVENT_LIMIT (4095 per device). */
JAL_API jal_status_t jal_event_create(jal_device_t device, jal_event_t* out_event) JAL_NOEXCEPT;
/* Streams that wait for it still do. */
JAL_API jal_status_t jal_event_destroy(jal_event_t event) JAL_NOEXCEPT;

/* Enqueues the mark. On another stream than the last time it also waits for that earlier mark, so that time never runs
 * backwards. INVALID_ARGUMENT when event and stream are of different devices. */
JAL_API jal_status_t jal_event_record(jal_event_t event, jal_stream_t stream) JAL_NOEXCEPT;

/* OK, NOT_READY (drives the device by one unit of work), EVENT_NOT_RECORDED, UPSTREAM_FAILED. Any thread. */
JAL_API jal_status_t jal_event_query(jal_event_t event) JAL_NOEXCEPT;
/* As query, but waits. TIMEOUT. Any thread. */
JAL_API jal_status_t jal_event_synchronize(jal_event_t event, uint64_t deadline_ns) JAL_NOEXCEPT;
/* Work enqueued on the stream from here on starts after the event's latest record. EVENT_NOT_RECORDED. */
JAL_API jal_status_t jal_event_wait(jal_event_t event, jal_stream_t stream) JAL_NOEXCEPT;

/* Time between two events that have been reached: end of `to` minus end of `from`, in ps of the DEVICE's clock
 * (modelled; its kind, JAL_CLOCK_*, in out_clock_kind, may be NULL), negative when `to` came first. NOT_READY,
 * EVENT_NOT_RECORDED, UPSTREAM_FAILED, INVALID_ARGUMENT (different devices). */
JAL_API jal_status_t jal_event_elapsed_ps(jal_event_t from, jal_event_t to, int64_t* out_ps,
                                          uint32_t* out_clock_kind) JAL_NOEXCEPT;

/* Device time of the latest record, ps. */
JAL_API jal_status_t jal_event_time_ps(jal_event_t event, uint64_t* out_ps) JAL_NOEXCEPT;

JAL_END_C
#endif
