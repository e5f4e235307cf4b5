/* One status family for everything: host, driver, firmware, emulator, tools.
 *
 * A status is an int32: 0 is success, else canonical << 16 | unit << 8 | detail. The list below is the only place that
 * defines codes; it makes the constants, the strings, `jal explain` and the table in docs/status.md. It only grows.
 * X(NAME, canonical, unit, detail, what it means, what to do about it) */
#ifndef JAL_ABI_STATUS_H
#define JAL_ABI_STATUS_H

#include "base.h"

typedef int32_t jal_status_t;

/* Canonical codes: what kind of failure, and so whether a retry can help. */
#define JAL_CANON_CANCELLED 1
#define JAL_CANON_INVALID_ARGUMENT 3
#define JAL_CANON_DEADLINE_EXCEEDED 4
#define JAL_CANON_NOT_FOUND 5
#define JAL_CANON_ALREADY_EXISTS 6
#define JAL_CANON_PERMISSION_DENIED 7
#define JAL_CANON_RESOURCE_EXHAUSTED 8
#define JAL_CANON_FAILED_PRECONDITION 9
#define JAL_CANON_ABORTED 10
#define JAL_CANON_OUT_OF_RANGE 11
#define JAL_CANON_UNIMPLEMENTED 12
#define JAL_CANON_INTERNAL 13
#define JAL_CANON_UNAVAILABLE 14
#define JAL_CANON_DATA_LOSS 15

/* Units: which part refused. */
#define JAL_STATUS_UNIT_GENERAL 0
#define JAL_STATUS_UNIT_SESSION 1
#define JAL_STATUS_UNIT_QUEUE 2
#define JAL_STATUS_UNIT_EVENT 3
#define JAL_STATUS_UNIT_MEMORY 4
#define JAL_STATUS_UNIT_MODULE 5
#define JAL_STATUS_UNIT_KERNEL 6
#define JAL_STATUS_UNIT_TENSOR 7
#define JAL_STATUS_UNIT_DEVICE 8
#define JAL_STATUS_UNIT_TELEMETRY 9
#define JAL_STATUS_UNIT_FILE 10

#define JAL_STATUS_MAKE(canonical, unit, detail) JAL_ABI_CAST(int32_t, ((canonical) << 16) | ((unit) << 8) | (detail))
#define JAL_STATUS_CANONICAL(status) (((status) >> 16) & 0xff)
#define JAL_STATUS_UNIT(status) (((status) >> 8) & 0xff)
#define JAL_STATUS_DETAIL(status) ((status)&0xff)

/* clang-format off */
#define JAL_STATUS_LIST(X) \
  X(INVALID_ARGUMENT,      JAL_CANON_INVALID_ARGUMENT,    JAL_STATUS_UNIT_GENERAL, 1, "an argument is outside its documented range", "read the message: it names the argument, its value and the limit") \
  X(INVALID_HANDLE,        JAL_CANON_INVALID_ARGUMENT,    JAL_STATUS_UNIT_GENERAL, 2, "the handle was never valid here, or is of another kind", "pass a handle that this process created and has not destroyed") \
  X(STALE_HANDLE,          JAL_CANON_FAILED_PRECONDITION, JAL_STATUS_UNIT_GENERAL, 3, "the object behind the handle was destroyed (double free, or use after destroy)", "stop using a handle after its destroy call") \
  X(WRONG_STRUCT_SIZE,     JAL_CANON_INVALID_ARGUMENT,    JAL_STATUS_UNIT_GENERAL, 4, "struct_size of an options struct is not one this library knows", "set struct_size = sizeof(the struct) and build with the headers of the installed library") \
  X(RESERVED_NOT_ZERO,     JAL_CANON_INVALID_ARGUMENT,    JAL_STATUS_UNIT_GENERAL, 5, "a reserved field or unknown flag is set", "zero-initialise the struct") \
  X(TIMEOUT,               JAL_CANON_DEADLINE_EXCEEDED,   JAL_STATUS_UNIT_GENERAL, 6, "the deadline passed before the work finished; the work goes on", "wait again with a later deadline, or look at jal-smi for what is pending") \
  X(UNIMPLEMENTED,         JAL_CANON_UNIMPLEMENTED,       JAL_STATUS_UNIT_GENERAL, 7, "this device or version does not offer the operation", "query the device's features before using it") \
  X(INTERNAL,              JAL_CANON_INTERNAL,            JAL_STATUS_UNIT_GENERAL, 8, "a fault of the SDK itself", "report it with the message and the log") \
  X(OUT_OF_HOST_MEMORY,    JAL_CANON_RESOURCE_EXHAUSTED,  JAL_STATUS_UNIT_GENERAL, 9, "the host could not give memory to the library", "free host memory") \
  X(NOT_INITIALISED,       JAL_CANON_FAILED_PRECONDITION, JAL_STATUS_UNIT_GENERAL, 10, "jal_init was not called, or jal_shutdown was", "call jal_init first") \
  X(FORKED,                JAL_CANON_FAILED_PRECONDITION, JAL_STATUS_UNIT_GENERAL, 11, "the handle was made by the parent before fork; devices do not survive fork", "call jal_init in the child") \
  X(BUFFER_TOO_SMALL,      JAL_CANON_OUT_OF_RANGE,        JAL_STATUS_UNIT_GENERAL, 12, "the caller's buffer cannot hold the result", "call again with the size the message names") \
  X(UPSTREAM_FAILED,       JAL_CANON_ABORTED,             JAL_STATUS_UNIT_GENERAL, 13, "earlier work that this depends on failed", "read the error record named in the message, then jal_stream_recover") \
  X(NO_DEVICE,             JAL_CANON_NOT_FOUND,           JAL_STATUS_UNIT_SESSION, 1, "no such device", "list devices with jal-smi list") \
  X(NO_INSTANCE,           JAL_CANON_UNAVAILABLE,         JAL_STATUS_UNIT_SESSION, 2, "no chip and no emulator could be reached", "set JAL_EMULATOR to libjal-emulator.so, or install it beside libjal") \
  X(ABI_TOO_OLD,           JAL_CANON_FAILED_PRECONDITION, JAL_STATUS_UNIT_SESSION, 3, "the device speaks only older contract versions", "update the firmware or emulator") \
  X(ABI_TOO_NEW,           JAL_CANON_FAILED_PRECONDITION, JAL_STATUS_UNIT_SESSION, 4, "the device speaks only newer contract versions", "update libjal") \
  X(NO_PERMISSION,         JAL_CANON_PERMISSION_DENIED,   JAL_STATUS_UNIT_SESSION, 5, "the system refuses access to the instance or its files", "check owner and mode of the path named in the message") \
  X(BUSY,                  JAL_CANON_UNAVAILABLE,         JAL_STATUS_UNIT_SESSION, 6, "the resource is held by somebody else, named in the message", "wait for the owner to release it") \
  X(TOO_MANY_CLIENTS,      JAL_CANON_RESOURCE_EXHAUSTED,  JAL_STATUS_UNIT_SESSION, 7, "the device serves its maximal number of clients", "close a client") \
  X(HANDSHAKE_REFUSED,     JAL_CANON_FAILED_PRECONDITION, JAL_STATUS_UNIT_SESSION, 8, "the handshake words are not those of this contract", "use a libjal and an emulator of one release") \
  X(BAD_RUNTIME_DIR,       JAL_CANON_PERMISSION_DENIED,   JAL_STATUS_UNIT_SESSION, 9, "the rendezvous directory is not owned by this user or is open to others", "fix owner and mode, or set JAL_RUNTIME_DIR") \
  X(QUEUE_FULL,            JAL_CANON_RESOURCE_EXHAUSTED,  JAL_STATUS_UNIT_QUEUE, 1, "the ring has no free slot", "wait for completions or raise queue_depth") \
  X(QUEUE_LIMIT,           JAL_CANON_RESOURCE_EXHAUSTED,  JAL_STATUS_UNIT_QUEUE, 2, "the client has its maximal number of queues on this device", "destroy a stream") \
  X(BAD_PACKET,            JAL_CANON_INVALID_ARGUMENT,    JAL_STATUS_UNIT_QUEUE, 3, "the firmware refused a packet: illegal type, flag, reserved field or operand", "read the error record: it names the field and the value") \
  X(ARGUMENT_RING_FULL,    JAL_CANON_RESOURCE_EXHAUSTED,  JAL_STATUS_UNIT_QUEUE, 4, "the argument ring has no room for the arguments", "wait for completions or pass smaller arguments") \
  X(QUEUE_POISONED,        JAL_CANON_FAILED_PRECONDITION, JAL_STATUS_UNIT_QUEUE, 5, "an earlier packet of this stream failed; the stream drops work until it is recovered", "jal_stream_recover") \
  X(QUEUE_BUSY,            JAL_CANON_FAILED_PRECONDITION, JAL_STATUS_UNIT_QUEUE, 6, "work is still pending on the queue", "synchronise before destroying it") \
  X(EVENT_LIMIT,           JAL_CANON_RESOURCE_EXHAUSTED,  JAL_STATUS_UNIT_EVENT, 1, "all events of this client are in use", "destroy events that are no longer needed") \
  X(EVENT_NOT_RECORDED,    JAL_CANON_FAILED_PRECONDITION, JAL_STATUS_UNIT_EVENT, 2, "the event was never recorded, so it has no time", "record it on a stream first") \
  X(EVENT_BACKWARDS,       JAL_CANON_INVALID_ARGUMENT,    JAL_STATUS_UNIT_EVENT, 3, "an event's timeline may only grow", "signal a value above the present one") \
  X(NOT_READY,             JAL_CANON_UNAVAILABLE,         JAL_STATUS_UNIT_EVENT, 4, "the work is still pending (an answer to a query, not a failure)", "query again or synchronise") \
  X(OUT_OF_DEVICE_MEMORY,  JAL_CANON_RESOURCE_EXHAUSTED,  JAL_STATUS_UNIT_MEMORY, 1, "a slice has not enough free pages; the message names it and what other slices have", "free memory there, or place the allocation on other slices") \
  X(HOST_BUDGET,           JAL_CANON_RESOURCE_EXHAUSTED,  JAL_STATUS_UNIT_MEMORY, 2, "the emulator's host-memory budget is spent, although the chip has free pages", "raise JAL_HOST_BUDGET or use less; silicon would have granted it") \
  X(BAD_ADDRESS,           JAL_CANON_OUT_OF_RANGE,        JAL_STATUS_UNIT_MEMORY, 3, "the address is not mapped, or the range runs past its allocation", "check the address against the allocation named in the record") \
  X(FOREIGN_ADDRESS,       JAL_CANON_PERMISSION_DENIED,   JAL_STATUS_UNIT_MEMORY, 4, "the address belongs to another client", "use only memory this client allocated") \
  X(UNALIGNED_ADDRESS,     JAL_CANON_INVALID_ARGUMENT,    JAL_STATUS_UNIT_MEMORY, 5, "the address or size is not aligned as the operation needs", "align it as the message says") \
  X(BAD_SLICE_MASK,        JAL_CANON_INVALID_ARGUMENT,    JAL_STATUS_UNIT_MEMORY, 6, "the slice mask is empty or names slices the chip does not have", "use slices below jal_device_info.slices") \
  X(NOT_HOST_VISIBLE,      JAL_CANON_INVALID_ARGUMENT,    JAL_STATUS_UNIT_MEMORY, 7, "the memory cannot be mapped by the host", "copy it, or allocate it host-visible") \
  X(MEMORY_BUSY,           JAL_CANON_FAILED_PRECONDITION, JAL_STATUS_UNIT_MEMORY, 8, "pending work still uses the memory", "synchronise the stream first") \
  X(BAD_MODULE,            JAL_CANON_DATA_LOSS,           JAL_STATUS_UNIT_MODULE, 1, "the .jko is truncated, corrupt or of an unknown version", "build it again with jalcc of this release") \
  X(MODULE_ARCH,           JAL_CANON_FAILED_PRECONDITION, JAL_STATUS_UNIT_MODULE, 2, "the module has no section that this device can run", "build it with jalcc for the device's architecture") \
  X(MODULE_LOAD,           JAL_CANON_FAILED_PRECONDITION, JAL_STATUS_UNIT_MODULE, 3, "the loader refused the module's code; the message has its words", "check for undefined symbols: kernels may call only the kernel SDK") \
  X(MODULE_LIMIT,          JAL_CANON_RESOURCE_EXHAUSTED,  JAL_STATUS_UNIT_MODULE, 4, "the device holds its maximal number of modules", "unload a module") \
  X(NO_KERNEL,             JAL_CANON_NOT_FOUND,           JAL_STATUS_UNIT_MODULE, 5, "the module has no kernel of that name", "jalcc --list shows the kernels of a module") \
  X(BAD_ARGUMENTS,         JAL_CANON_INVALID_ARGUMENT,    JAL_STATUS_UNIT_KERNEL, 1, "the arguments do not match the kernel's signature", "pass the arguments in the order, type and number the message names") \
  X(BAD_CORE_MASK,         JAL_CANON_INVALID_ARGUMENT,    JAL_STATUS_UNIT_KERNEL, 2, "the core mask is empty or names cores the chip does not have", "use cores below jal_device_info.cores") \
  X(KERNEL_FAULT,          JAL_CANON_ABORTED,             JAL_STATUS_UNIT_KERNEL, 3, "a kernel made an illegal access or raised an error", "read the error record: kernel, core, address, file and line; run with JAL_SANITIZE=memory") \
  X(KERNEL_DEADLINE,       JAL_CANON_DEADLINE_EXCEEDED,   JAL_STATUS_UNIT_KERNEL, 4, "a kernel ran past its deadline; native cores cannot be preempted, so the device is lost", "fix the loop, or raise JAL_KERNEL_DEADLINE") \
  X(KERNEL_DEADLOCK,       JAL_CANON_ABORTED,             JAL_STATUS_UNIT_KERNEL, 5, "all remaining cores wait for each other", "read the record: it names which core waits for what") \
  X(L1_OVERFLOW,           JAL_CANON_RESOURCE_EXHAUSTED,  JAL_STATUS_UNIT_KERNEL, 6, "a kernel asked for more L1 than the core has", "use smaller tiles") \
  X(SANITIZER,             JAL_CANON_ABORTED,             JAL_STATUS_UNIT_KERNEL, 7, "JAL_SANITIZE found a fault in a kernel", "read the report: kernel, core, file and line") \
  X(BAD_TENSOR,            JAL_CANON_INVALID_ARGUMENT,    JAL_STATUS_UNIT_TENSOR, 1, "a TensorInfo contradicts itself", "build it with jal_tensor_info_init or jal_tensor_shard") \
  X(TENSOR_RANGE,          JAL_CANON_OUT_OF_RANGE,        JAL_STATUS_UNIT_TENSOR, 2, "a tensor reaches outside memory this client owns", "allocate jal_tensor_info bytes_per_slice on every slice of its mask") \
  X(TENSOR_DTYPE,          JAL_CANON_INVALID_ARGUMENT,    JAL_STATUS_UNIT_TENSOR, 3, "the data type or tiling does not fit the operation", "convert it on upload") \
  X(DEVICE_LOST,           JAL_CANON_UNAVAILABLE,         JAL_STATUS_UNIT_DEVICE, 1, "the device no longer works; its memory is gone", "jal_shutdown and jal_init again") \
  X(FIRMWARE_HUNG,         JAL_CANON_DEADLINE_EXCEEDED,   JAL_STATUS_UNIT_DEVICE, 2, "the firmware did not answer before the deadline", "look at the boot post code with jal-smi query") \
  X(BOOT_FAILED,           JAL_CANON_UNAVAILABLE,         JAL_STATUS_UNIT_DEVICE, 3, "the firmware stopped during boot; the post code says where", "read the message's post code") \
  X(BAD_MODEL_FILE,        JAL_CANON_DATA_LOSS,           JAL_STATUS_UNIT_DEVICE, 4, "the chip's model file is missing, malformed or out of range", "set JAL_MODEL to an installed model file") \
  X(NO_TELEMETRY,          JAL_CANON_NOT_FOUND,           JAL_STATUS_UNIT_TELEMETRY, 1, "no telemetry file of a running instance was found", "start an instance, or set JAL_RUNTIME_DIR") \
  X(BAD_TELEMETRY,         JAL_CANON_DATA_LOSS,           JAL_STATUS_UNIT_TELEMETRY, 2, "the telemetry file is not of this contract or is torn", "use a jal-smi of the emulator's release") \
  X(FILE_NOT_FOUND,        JAL_CANON_NOT_FOUND,           JAL_STATUS_UNIT_FILE, 1, "the file does not exist or cannot be opened", "check the path") \
  X(FILE_CORRUPT,          JAL_CANON_DATA_LOSS,           JAL_STATUS_UNIT_FILE, 2, "the file's contents contradict its format or checksum", "fetch or build the file again") \
  X(FILE_UNSUPPORTED,      JAL_CANON_UNIMPLEMENTED,       JAL_STATUS_UNIT_FILE, 3, "the file is valid but uses a type this version does not read", "convert it to a supported type") \
  X(FILE_IO,               JAL_CANON_DATA_LOSS,           JAL_STATUS_UNIT_FILE, 4, "reading or writing a file failed", "read the system's reason in the message")
/* clang-format on */

#define JAL_OK JAL_ABI_CAST(jal_status_t, 0)
enum { /* values, not a shared type: a struct field is always jal_status_t */
#define JAL_STATUS_X(name, canonical, unit, detail, meaning, advice) \
  JAL_ERROR_##name = JAL_STATUS_MAKE(canonical, unit, detail),
       JAL_STATUS_LIST(JAL_STATUS_X)
#undef JAL_STATUS_X
           JAL_STATUS_LIST_END_ = 0x7fffffff
};

#endif
