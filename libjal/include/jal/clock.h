/* The two clocks: the host's (measured), for deadlines, and each device's (modelled unless it is silicon). */
#ifndef JAL_CLOCK_H
#define JAL_CLOCK_H

#include <jal/abi/power.h>
#include <jal/api.h>

JAL_BEGIN_C

/* Host time in ns: CLOCK_MONOTONIC. The clock of every deadline. */
JAL_API uint64_t jal_clock_now_ns(void) JAL_NOEXCEPT;

/* A deadline `timeout_ns` from now; saturates instead of wrapping. */
JAL_API uint64_t jal_clock_deadline(uint64_t timeout_ns) JAL_NOEXCEPT;

/* Device time in ps, and which clock it is (JAL_CLOCK_*, may be NULL). Asks the firmware: microseconds of host time.
 * INVALID_HANDLE, STALE_HANDLE, DEVICE_LOST, FIRMWARE_HUNG. */
JAL_API jal_status_t jal_clock_device_ps(jal_device_t device, uint64_t* out_ps, uint32_t* out_clock_kind) JAL_NOEXCEPT;

JAL_END_C
#endif
