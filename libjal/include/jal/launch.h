/* Launching a kernel on a mask of cores, with arguments that are checked against the kernel's signature. */
#ifndef JAL_LAUNCH_H
#define JAL_LAUNCH_H

#include <jal/abi/module.h>
#include <jal/abi/tensor.h>
#include <jal/api.h>

JAL_BEGIN_C

/* One argument. type is JAL_ARGUMENT_*; scalars lie in the union, a tensor or a struct by value is pointed to. */
typedef struct jal_argument {
  uint32_t type;
  uint32_t bytes; /* JAL_ARGUMENT_BYTES: size of the struct; else 0 */
  union {
    uint32_t u32;
    int32_t i32;
    float f32;
    uint64_t u64;
    int64_t i64;
    double f64;
    jal_address_t address;
    const jal_tensor_info* tensor;
    const void* data;
  } value;
} jal_argument;

#define JAL_LAUNCH_OVERLAP 1u /* may start before the stream's previous packet has ended */

typedef struct jal_launch_options {
  uint32_t struct_size;
  uint32_t flags; /* JAL_LAUNCH_* */
  uint64_t tag;   /* free for the caller; appears in traces and error records */
  uint64_t reserved[4];
} jal_launch_options;

/* Enqueues the kernel on the cores of the mask (physical numbers; taken all or nothing). The arguments are copied
 * before the call returns. options NULL: none. BAD_ARGUMENTS (names the argument, what the kernel wants and what came),
 * BAD_CORE_MASK, BAD_TENSOR, INVALID_ARGUMENT (kernel and stream of different devices), QUEUE_FULL, ARGUMENT_RING_FULL,
 * QUEUE_POISONED, DEVICE_LOST. What the kernel itself does wrong (KERNEL_FAULT, KERNEL_DEADLINE, KERNEL_DEADLOCK,
 * L1_OVERFLOW, SANITIZER, TENSOR_RANGE) poisons the stream. */
JAL_API jal_status_t jal_launch(jal_stream_t stream, jal_kernel_t kernel, uint64_t core_mask,
                                const jal_argument* arguments, uint32_t argument_count,
                                const jal_launch_options* options) JAL_NOEXCEPT;

/* The same with the argument block as the kernel sees it: `bytes` must be the kernel's argument_bytes (BAD_ARGUMENTS).
 */
JAL_API jal_status_t jal_launch_packed(jal_stream_t stream, jal_kernel_t kernel, uint64_t core_mask, const void* block,
                                       uint32_t bytes, const jal_launch_options* options) JAL_NOEXCEPT;

JAL_END_C
#endif
