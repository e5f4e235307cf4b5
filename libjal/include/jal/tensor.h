/* Tensors: building descriptors (jal_tensor_info, jal/abi/tensor.h), and moving data between plain host arrays and
 * their placement on the device.
 *
 * A descriptor is a value: no handle, no memory of its own. Typical use: init, shard or replicate, set_tiling; allocate
 * bytes_per_slice on slice_mask; set offset to the allocation's; upload; pass it to kernels.
 * Shape functions need no device and no jal_init. */
#ifndef JAL_TENSOR_H
#define JAL_TENSOR_H

#include <jal/abi/tensor.h>
#include <jal/api.h>

JAL_BEGIN_C

/* Row-major, whole, on slice 0, offset 0. dims[0] varies slowest. BAD_TENSOR (unknown dtype, ndim not 1..6, a zero
 * dim). MX types start with the matrix engine's tiling and need two dims, rows by k. */
JAL_API jal_status_t jal_tensor_info_init(jal_tensor_info* out_info, uint32_t dtype, uint32_t ndim,
                                          const uint64_t* dims) JAL_NOEXCEPT;

#define JAL_TENSOR_BLOCKED \
  0u /* slice i holds the i-th run of ceil(extent / slices) indices; the last ones may hold padding */
#define JAL_TENSOR_CYCLIC 1u /* index i lies in slice i mod slices */

/* Deals dimension `dim` out over the slices of the mask. Replaces the placement so far. BAD_TENSOR, BAD_SLICE_MASK (0).
 */
JAL_API jal_status_t jal_tensor_shard(jal_tensor_info* info, uint32_t dim, uint64_t slice_mask,
                                      uint32_t order) JAL_NOEXCEPT;

/* The whole tensor on every slice of the mask. */
JAL_API jal_status_t jal_tensor_replicate(jal_tensor_info* info, uint64_t slice_mask) JAL_NOEXCEPT;

/* JAL_TILING_*. Engine tiling: bf16, mxfp8, mxfp4, two dims (rows, k): each slice's rows by its k become one weight
 * tile. TENSOR_DTYPE. */
JAL_API jal_status_t jal_tensor_set_tiling(jal_tensor_info* info, uint32_t tiling) JAL_NOEXCEPT;

/* Checks a descriptor that was filled by hand and computes bytes_per_slice (which may be 0 before). BAD_TENSOR says
 * which field contradicts which. */
JAL_API jal_status_t jal_tensor_check(jal_tensor_info* info) JAL_NOEXCEPT;

/* Bytes of the tensor as a plain host array of `dtype` (0 = its own; MX: codes without scales). */
JAL_API jal_status_t jal_tensor_host_bytes(const jal_tensor_info* info, uint32_t dtype,
                                           uint64_t* out_bytes) JAL_NOEXCEPT;

/* Where element `index` (ndim numbers) lies: the lowest slice that holds it and its position within the slice, in
 * elements. Row-major tiling; INVALID_ARGUMENT out of range. */
JAL_API jal_status_t jal_tensor_locate(const jal_tensor_info* info, const uint64_t* index, uint32_t* out_slice,
                                       uint64_t* out_element) JAL_NOEXCEPT;

/* A plain host array: row-major, dense, dims of the tensor. */
typedef struct jal_tensor_host {
  uint32_t struct_size;
  uint32_t dtype; /* of data; f32, bf16 and f16 convert into each other and into MX; others must equal the tensor's */
  void* data;     /* upload only reads it. MX: plain codes, rows padded to 32 elements; mxfp4: low nibble first */
  void* scales;   /* MX codes: E8M0, rows by ceil(k / 32); else NULL */
  uint64_t reserved[4];
} jal_tensor_host;

/* Host -> device with conversion of type (round to nearest even; MX by blocks of 32 with the scale rounded up) and
 * layout. Padding becomes zero. Blocking: returns when the data is in place; does not wait for streams. Any thread.
 * BAD_TENSOR, TENSOR_DTYPE (no conversion between those types), TENSOR_RANGE, BAD_ADDRESS, TIMEOUT, DEVICE_LOST. */
JAL_API jal_status_t jal_tensor_upload(jal_device_t device, const jal_tensor_info* info, const jal_tensor_host* host,
                                       uint64_t deadline_ns) JAL_NOEXCEPT;
/* Device -> host; replicated tensors are read from the lowest slice. MX to f32, bf16, f16, or to codes and scales. */
JAL_API jal_status_t jal_tensor_download(jal_device_t device, const jal_tensor_info* info, const jal_tensor_host* host,
                                         uint64_t deadline_ns) JAL_NOEXCEPT;

/* "bf16"; "unknown". Static. */
JAL_API const char* jal_dtype_name(uint32_t dtype) JAL_NOEXCEPT;

JAL_END_C
#endif
