/* Start and end of the library in a process.
 *
 * jal_init opens an instance of chips: today the emulator, loaded into this process. Its library is looked for at
 * $JAL_EMULATOR, then beside libjal (../lib/jal, ../libexec/jal, the same folder). Calls nest: each successful jal_init
 * needs one jal_shutdown. After fork the child has no devices; it may call jal_init for itself. */
#ifndef JAL_INIT_H
#define JAL_INIT_H

#include <jal/abi/instance.h>
#include <jal/api.h>

JAL_BEGIN_C

typedef struct jal_init_options {
  uint32_t struct_size;
  uint32_t device_count;       /* 1..8; 0 = JAL_DEVICES, else 1 */
  const char* model;           /* chip model: name or path; NULL = JAL_MODEL, else jal1-a0 */
  const char* trace_path;      /* record a trace from the start (jal/trace.h); NULL = JAL_TRACE, else none */
  uint32_t worker_threads;     /* 0 = JAL_WORKERS, else one per CPU this process may use, at most 8 */
  uint32_t sanitize;           /* JAL_SANITIZE_*, added to those of the environment */
  uint64_t host_budget_bytes;  /* 0 = JAL_HOST_BUDGET, else 80 % of what this process may use */
  uint64_t kernel_deadline_ns; /* host time one kernel may take; 0 = JAL_KERNEL_DEADLINE, else 30 s */
  uint64_t reserved[4];
} jal_init_options;

/* Opens the instance; NULL means all defaults. When the library is initialised already, only the count goes up: the
 * options must be NULL or those of the first call (INVALID_ARGUMENT). NO_INSTANCE (no emulator found; the message lists
 * where it was looked for), ABI_TOO_OLD, ABI_TOO_NEW (with both version ranges), BAD_MODEL_FILE, BOOT_FAILED,
 * WRONG_STRUCT_SIZE, RESERVED_NOT_ZERO, INVALID_ARGUMENT, OUT_OF_HOST_MEMORY, BAD_RUNTIME_DIR. */
JAL_API jal_status_t jal_init(const jal_init_options* options) JAL_NOEXCEPT;

/* The last one destroys every object that is left (their handles turn stale), gives memory back and closes the
 * instance. No other call may be running. NOT_INITIALISED. */
JAL_API jal_status_t jal_shutdown(void) JAL_NOEXCEPT;

/* Semantic version of this library, "0.1.0". Static. */
JAL_API const char* jal_version(void) JAL_NOEXCEPT;

/* Path of the running instance's telemetry file (jal/abi/telemetry.h). Valid until jal_shutdown. NOT_INITIALISED,
 * FORKED. */
JAL_API jal_status_t jal_telemetry_path(const char** out_path) JAL_NOEXCEPT;

JAL_END_C
#endif
