/* Statuses as text, and the message of the last failure. The list itself is jal/abi/status.h. */
#ifndef JAL_STATUS_H
#define JAL_STATUS_H

#include <jal/api.h>

JAL_BEGIN_C

/* "OUT_OF_DEVICE_MEMORY"; "OK" for 0; "UNKNOWN" for what this library does not know. Static. Any thread, also before
 * jal_init. */
JAL_API const char* jal_status_name(jal_status_t status) JAL_NOEXCEPT;

/* What the status means, in one sentence. Static. */
JAL_API const char* jal_status_text(jal_status_t status) JAL_NOEXCEPT;

/* What to do about it, in one sentence. Static. */
JAL_API const char* jal_status_advice(jal_status_t status) JAL_NOEXCEPT;

/* The status of a name ("BUSY", in any case, with or without JAL_ERROR_). NOT found: INVALID_ARGUMENT. */
JAL_API jal_status_t jal_status_from_name(const char* name, jal_status_t* out_status) JAL_NOEXCEPT;

/* The i-th status of the list, from 0; INVALID_ARGUMENT past its end. For tools that print the list. */
JAL_API jal_status_t jal_status_at(uint32_t index, jal_status_t* out_status) JAL_NOEXCEPT;

/* The message of this thread's last failed call: one line per layer, innermost first. "" if none failed yet. Valid
 * until the thread's next failing call. A successful call leaves it alone. */
JAL_API const char* jal_last_error_message(void) JAL_NOEXCEPT;

/* The status of that call, JAL_OK if none failed yet. */
JAL_API jal_status_t jal_last_error_status(void) JAL_NOEXCEPT;

JAL_END_C
#endif
