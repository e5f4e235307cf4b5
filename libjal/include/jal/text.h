/* What kernels print (device printf) and sanitizers report. Without a sink it goes to standard error, a line a record,
 * with "device 0 core 3: " before it. */
#ifndef JAL_TEXT_H
#define JAL_TEXT_H

#include <jal/api.h>

JAL_BEGIN_C

/* text is not NUL-terminated; valid during the call. Called on the thread that waits; it must not call libjal. */
typedef void (*jal_text_sink)(void* user, uint32_t device, uint32_t core, const char* text, uint64_t bytes);

/* NULL: back to standard error. Waits for a running call of the old sink. Any thread. NOT_INITIALISED. */
JAL_API jal_status_t jal_text_set_sink(jal_text_sink sink, void* user) JAL_NOEXCEPT;

JAL_END_C
#endif
