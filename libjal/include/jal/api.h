/* What every public header needs: linkage, the handle types, struct_size, deadlines.
 *
 * What it is not: a noun. Include <jal/jal.h> or the header of the noun you use.
 * Rules of the whole C ABI:
 *  - a function is jal_<noun>_<verb>; it returns jal_status_t unless it only returns a text or a time; outputs come
 * last and are written only on success, so a failed call changes nothing;
 *  - when a call fails, jal_last_error_message() on the same thread says what failed, the values, the limit and the
 * fix;
 *  - handles are opaque values, never dereferenced: NULL, a number, another kind or an object of another process gives
 *    INVALID_HANDLE, a destroyed object STALE_HANDLE, an object made before fork FORKED;
 *  - a struct that begins with struct_size is zero-initialised by the caller, who then sets struct_size = sizeof(it);
 *    reserved fields and unknown flags must be zero (RESERVED_NOT_ZERO);
 *  - deadlines are absolute, in ns of jal_clock_now_ns(); one that has passed makes a wait a query.
 * Threads: functions that take a stream are externally synchronised per stream unless they say otherwise; everything
 * else may be called from any thread. Destroying an object while another thread uses it is the caller's error. */
#ifndef JAL_API_H
#define JAL_API_H

#include <jal/abi/base.h>
#include <jal/abi/status.h>

#ifdef __cplusplus
  #define JAL_NOEXCEPT noexcept
  #define JAL_BEGIN_C extern "C" {
  #define JAL_END_C }
#else
  #define JAL_NOEXCEPT
  #define JAL_BEGIN_C
  #define JAL_END_C
#endif
#define JAL_API __attribute__((visibility("default")))

JAL_BEGIN_C

typedef struct jal_device_handle* jal_device_t;
typedef struct jal_memory_handle* jal_memory_t;
typedef struct jal_stream_handle* jal_stream_t;
typedef struct jal_event_handle* jal_event_t;
typedef struct jal_module_handle* jal_module_t;
typedef struct jal_kernel_handle* jal_kernel_t;

/* A device address (jal/abi/address.h): HBM = 1 << 40 | slice << 32 | offset; host memory has bit 63. */
typedef uint64_t jal_address_t;

JAL_END_C
#endif
