/* Copies and fills: on a stream (return at once, in stream order) or blocking.
 *
 * A host pointer is any memory of this process; it must stay valid and unchanged until the stream has passed the copy.
 * The `slices` forms move a sharded allocation in one packet: the HBM side visits the slices of the mask in ascending
 * order at one offset, the host side (or the linear side) advances by bytes_per_slice.
 * All: INVALID_HANDLE, STALE_HANDLE, INVALID_ARGUMENT, QUEUE_POISONED, QUEUE_FULL, DEVICE_LOST at once; bad addresses
 * (BAD_ADDRESS, FOREIGN_ADDRESS, UNALIGNED_ADDRESS) are found by the device: the stream is poisoned, waits report it.
 */
#ifndef JAL_COPY_H
#define JAL_COPY_H

#include <jal/abi/address.h>
#include <jal/api.h>

JAL_BEGIN_C

JAL_API jal_status_t jal_copy_to_device(jal_stream_t stream, jal_address_t dst, const void* src,
                                        uint64_t bytes) JAL_NOEXCEPT;
JAL_API jal_status_t jal_copy_to_host(jal_stream_t stream, void* dst, jal_address_t src, uint64_t bytes) JAL_NOEXCEPT;
/* Within one device; the ranges must not overlap. */
JAL_API jal_status_t jal_copy_device(jal_stream_t stream, jal_address_t dst, jal_address_t src,
                                     uint64_t bytes) JAL_NOEXCEPT;
/* src holds bytes_per_slice bytes for each slice of the mask, one after the other. */
JAL_API jal_status_t jal_copy_to_slices(jal_stream_t stream, uint64_t slice_mask, uint64_t offset, const void* src,
                                        uint64_t bytes_per_slice) JAL_NOEXCEPT;
JAL_API jal_status_t jal_copy_from_slices(jal_stream_t stream, void* dst, uint64_t slice_mask, uint64_t offset,
                                          uint64_t bytes_per_slice) JAL_NOEXCEPT;
/* Repeats a 32-bit pattern; address and bytes are multiples of 4 (UNALIGNED_ADDRESS). */
JAL_API jal_status_t jal_copy_fill(jal_stream_t stream, jal_address_t dst, uint32_t pattern,
                                   uint64_t bytes) JAL_NOEXCEPT;
JAL_API jal_status_t jal_copy_fill_slices(jal_stream_t stream, uint64_t slice_mask, uint64_t offset, uint32_t pattern,
                                          uint64_t bytes_per_slice) JAL_NOEXCEPT;

/* Blocking forms: any thread; they return when the bytes are in place. They do not wait for work of streams. Besides
 * the above: TIMEOUT (the copy may still happen), BAD_ADDRESS, FOREIGN_ADDRESS. */
JAL_API jal_status_t jal_copy_to_device_blocking(jal_device_t device, jal_address_t dst, const void* src,
                                                 uint64_t bytes, uint64_t deadline_ns) JAL_NOEXCEPT;
JAL_API jal_status_t jal_copy_to_host_blocking(jal_device_t device, void* dst, jal_address_t src, uint64_t bytes,
                                               uint64_t deadline_ns) JAL_NOEXCEPT;
JAL_API jal_status_t jal_copy_device_blocking(jal_device_t device, jal_address_t dst, jal_address_t src, uint64_t bytes,
                                              uint64_t deadline_ns) JAL_NOEXCEPT;
JAL_API jal_status_t jal_copy_to_slices_blocking(jal_device_t device, uint64_t slice_mask, uint64_t offset,
                                                 const void* src, uint64_t bytes_per_slice,
                                                 uint64_t deadline_ns) JAL_NOEXCEPT;
JAL_API jal_status_t jal_copy_from_slices_blocking(jal_device_t device, void* dst, uint64_t slice_mask, uint64_t offset,
                                                   uint64_t bytes_per_slice, uint64_t deadline_ns) JAL_NOEXCEPT;

JAL_END_C
#endif
