/* Streams: an application's order of work. One stream owns one queue of its device and is strictly in order.
 *
 * Nothing runs by itself: today's chip lives in this process, and whoever waits (synchronise, query, blocking copies)
 * drives it. So enqueue, then wait, or query now and then. A failure poisons the stream: what is queued behind it is
 * dropped, waits report UPSTREAM_FAILED or the cause, until jal_stream_recover. Threads: one at a time enqueues;
 * synchronise and query may be called from any. */
#ifndef JAL_STREAM_H
#define JAL_STREAM_H

#include <jal/abi/power.h>
#include <jal/abi/session.h>
#include <jal/api.h>

JAL_BEGIN_C

#define JAL_STREAM_NO_WAIT 1u /* an enqueue that finds no room fails at once with QUEUE_FULL or ARGUMENT_RING_FULL */

typedef struct jal_stream_options {
  uint32_t struct_size;
  uint32_t flags;           /* JAL_STREAM_* */
  uint32_t depth;           /* packets, a power of two, 16..4096; 0 = 1024 */
  uint32_t argument_bytes;  /* argument ring, a power of two, 4 KiB..1 MiB; 0 = 256 KiB */
  uint64_t full_timeout_ns; /* how long an enqueue may drive the device to make room; 0 = 60 s */
  uint64_t reserved[4];
} jal_stream_options;

/* options NULL: defaults. QUEUE_LIMIT (32 per device, one of them for blocking calls), INVALID_ARGUMENT,
 * WRONG_STRUCT_SIZE, RESERVED_NOT_ZERO, INVALID_HANDLE, DEVICE_LOST, FIRMWARE_HUNG. */
JAL_API jal_status_t jal_stream_create(jal_device_t device, const jal_stream_options* options,
                                       jal_stream_t* out_stream) JAL_NOEXCEPT;

/* QUEUE_BUSY while work is pending: synchronise or recover first. */
JAL_API jal_status_t jal_stream_destroy(jal_stream_t stream) JAL_NOEXCEPT;

/* Waits until everything enqueued so far is done. TIMEOUT (the work goes on); a failed stream gives the status of the
 * failure, and the message has the record: kernel, core, address, file and line. DEVICE_LOST. */
JAL_API jal_status_t jal_stream_synchronize(jal_stream_t stream, uint64_t deadline_ns) JAL_NOEXCEPT;

/* OK when everything is done, NOT_READY while not (it drives the device by one unit of work), else as synchronize. */
JAL_API jal_status_t jal_stream_query(jal_stream_t stream) JAL_NOEXCEPT;

/* Drops what is queued and makes a poisoned stream usable again. out_dropped (may be NULL): packets that never ran. */
JAL_API jal_status_t jal_stream_recover(jal_stream_t stream, uint64_t* out_dropped) JAL_NOEXCEPT;

/* The record of the failure that poisoned the stream. NOT_READY when it is not poisoned. */
JAL_API jal_status_t jal_stream_get_error(jal_stream_t stream, jal_error_record* out_record) JAL_NOEXCEPT;

/* From here on, the stream's work belongs to this phase (JAL_PHASE_*): the governor's hint and the key of energy, time
 * and token counters. */
JAL_API jal_status_t jal_stream_set_phase(jal_stream_t stream, uint32_t phase) JAL_NOEXCEPT;

/* Adds tokens to a phase's counter when the stream gets here. */
JAL_API jal_status_t jal_stream_count_tokens(jal_stream_t stream, uint32_t phase, uint64_t tokens) JAL_NOEXCEPT;

/* Packets enqueued and done so far. Either may be NULL. */
JAL_API jal_status_t jal_stream_progress(jal_stream_t stream, uint64_t* out_enqueued,
                                         uint64_t* out_completed) JAL_NOEXCEPT;

JAL_END_C
#endif
