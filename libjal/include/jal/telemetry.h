/* What a device has done: energy, time and tokens by phase, bytes by path, counters. Read without disturbing it. */
#ifndef JAL_TELEMETRY_H
#define JAL_TELEMETRY_H

#include <jal/abi/power.h>
#include <jal/abi/telemetry.h>
#include <jal/api.h>

JAL_BEGIN_C

/* One moment of a device, consistent in itself. Energies in nJ, times in ps of the device's clock; both modelled when
 * figure_kind says so. */
typedef struct jal_telemetry {
  uint32_t struct_size;
  uint32_t state;       /* JAL_DEVICE_STATE_* */
  uint32_t figure_kind; /* JAL_FIGURE_* of energies and times */
  uint32_t scope;       /* JAL_SCOPE_* of energies and powers: package */
  uint32_t clock_kind;  /* JAL_CLOCK_* */
  uint32_t phase;       /* of the packet executed last */
  uint64_t clock_ps;
  uint64_t energy_nj;
  uint64_t energy_epoch;       /* counts resets of the energy counters */
  uint64_t unit_energy_nj[16]; /* by JAL_UNIT_*; their sum is energy_nj */
  uint64_t unit_busy_ps[16];   /* core time, summed over cores */
  uint32_t unit_state[16];     /* JAL_UNIT_STATE_* */
  uint64_t phase_energy_nj[8]; /* by JAL_PHASE_* */
  uint64_t phase_time_ps[8];
  uint64_t phase_tokens[8];
  uint64_t bytes_local;  /* HBM bytes between a core and its own slice */
  uint64_t bytes_remote; /* HBM bytes between a core and another slice */
  uint64_t bytes_collective;
  uint64_t bytes_noc;
  uint64_t bytes_host;
  uint64_t packets;
  uint64_t dispatches;
  uint64_t dispatch_time_ps; /* device time in which at least one kernel ran */
  uint64_t errors;
  uint64_t hbm_total, hbm_usable, hbm_reserved, hbm_used;
  uint64_t static_milliwatts, rated_milliwatts, sustained_milliwatts;
  uint64_t reserved[8];
} jal_telemetry;

/* Set out_telemetry->struct_size first. Microseconds; any thread. BAD_TELEMETRY (torn or of another contract). */
JAL_API jal_status_t jal_telemetry_read(jal_device_t device, jal_telemetry* out_telemetry) JAL_NOEXCEPT;

JAL_END_C
#endif
