/* Traces: what each core did when, in device time, as a file that ui.perfetto.dev opens.
 *
 * Tracks per device: one per core (kernels, waits) and one for copies, on a clock named "device <n> (virtual)". */
#ifndef JAL_TRACE_H
#define JAL_TRACE_H

#include <jal/api.h>

JAL_BEGIN_C

/* Starts writing to `path` (replaced if it exists). One trace at a time: BUSY. FILE_IO, NOT_INITIALISED. */
JAL_API jal_status_t jal_trace_start(const char* path) JAL_NOEXCEPT;
/* Ends and closes the file. out_spans (may be NULL): spans written. FILE_IO if a write failed; and
 * INVALID_ARGUMENT when no trace is running. */
JAL_API jal_status_t jal_trace_stop(uint64_t* out_spans) JAL_NOEXCEPT;

JAL_END_C
#endif
