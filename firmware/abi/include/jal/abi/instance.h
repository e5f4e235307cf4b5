/* How a driver in the same process reaches an instance (embedded emulator): a table of functions from one exported
 * symbol.
 *
 *   const jal_instance_api* jal_instance_get_api(uint32_t abi_version);   // NULL: version not offered
 *
 * Everything else goes through the client region and packets, as it would with silicon. Threads: open and close are
 * externally synchronised per instance; all other calls may come from any thread. `step` runs firmware and cores on the
 * calling thread; if another thread is already stepping that device it returns at once with JAL_STEP_BUSY. */
#ifndef JAL_ABI_INSTANCE_H
#define JAL_ABI_INSTANCE_H

#include "session.h"

#define JAL_INSTANCE_SYMBOL "jal_instance_get_api"
#define JAL_INSTANCE_API_VERSION 1u

typedef struct jal_instance jal_instance;     /* opaque */
typedef struct jal_attachment jal_attachment; /* opaque: one client on one device */

typedef struct jal_instance_options {
  uint32_t struct_size;
  uint32_t device_count;       /* 1..8; 0 = from the environment JAL_DEVICES, else 1 */
  const char* model;           /* model file path or name ("jal1-a0"); NULL = JAL_MODEL, else jal1-a0 */
  const char* name;            /* NULL: private */
  uint32_t worker_threads;     /* 0 = JAL_WORKERS, else one per CPU this process may use, at most 8 */
  uint32_t sanitize;           /* JAL_SANITIZE_* bits or-ed with those of the environment */
  uint64_t host_budget_bytes;  /* 0 = JAL_HOST_BUDGET, else 80 % of the cgroup limit or of the host's memory */
  uint64_t kernel_deadline_ns; /* 0 = JAL_KERNEL_DEADLINE (seconds), else 30 s; host time one dispatch may take */
  const char* trace_path;      /* NULL: a trace is written by the client, from its trace sink; else UNIMPLEMENTED */
  uint64_t reserved[4];
} jal_instance_options;

#define JAL_SANITIZE_MEMORY 1u
#define JAL_SANITIZE_INIT 2u
#define JAL_SANITIZE_RACE 4u
#define JAL_SANITIZE_LOCALITY 8u

#define JAL_STEP_IDLE 0u /* nothing to do until a client publishes */
#define JAL_STEP_WORKED 1u
#define JAL_STEP_BUSY 2u /* another thread steps this device */
#define JAL_STEP_LOST 3u /* the device is lost */

/* One span of device time, for traces: kernel on a core, copy on the DMA, wait of a core. */
typedef struct jal_trace_span {
  uint64_t start_ps;
  uint64_t end_ps;
  uint32_t device;
  uint32_t track; /* core number, or JAL_TRACK_* */
  uint32_t kind;  /* JAL_SPAN_* */
  uint32_t queue;
  uint64_t tag;
  uint64_t bytes;
  char name[64];
} jal_trace_span;
#define JAL_TRACK_COPY 1000u
#define JAL_SPAN_KERNEL 1u
#define JAL_SPAN_COPY 2u
#define JAL_SPAN_WAIT 3u
typedef void (*jal_trace_sink)(void* user, const jal_trace_span* span);

typedef struct jal_instance_api {
  uint32_t struct_size;
  uint32_t version;
  /* All functions that can fail write a NUL-terminated message to error (error_bytes > 0) when they return non-zero. */
  jal_status_t (*open)(const jal_instance_options* options, jal_instance** out, char* error, size_t error_bytes);
  void (*close)(jal_instance* instance); /* all attachments must be detached; the emulator's threads end */
  uint32_t (*device_count)(jal_instance* instance);
  /* Maps region (>= sizeof(jal_client_region), 4096-aligned, client magic set) as client memory of the device, and runs
   * the handshake. */
  jal_status_t (*attach)(jal_instance* instance, uint32_t device, void* region, uint64_t region_bytes,
                         jal_attachment** out, char* error, size_t error_bytes);
  void (*detach)(jal_attachment* attachment); /* fences work, scrubs and returns pages */
  uint32_t (*step)(
      jal_attachment* attachment); /* JAL_STEP_*; runs until at most one long unit of work (a kernel, a copy) is done */
  const char* (*telemetry_path)(jal_instance* instance);
  /* NULL removes it. Called from stepping threads. Waits for a running step before it returns. */
  void (*set_trace_sink)(jal_instance* instance, jal_trace_sink sink, void* user);
  /* The fidelity table: NULL-terminated array of {feature, level, text} triples of static strings. */
  const char* const* (*fidelity)(jal_instance* instance);
  /* A figure of the chip's model file by dotted name, for reports: value, unit and source text (static for the
   * instance's life). */
  jal_status_t (*model_value)(jal_instance* instance, const char* name, double* out_value, const char** out_unit,
                              const char** out_source);
  void* reserved[8];
} jal_instance_api;

#endif
