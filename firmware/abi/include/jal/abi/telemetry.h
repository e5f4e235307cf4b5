/* Telemetry: one file per instance, a head page and one page per device, readable without a lock or a lease, also while
 * firmware hangs. Only the device side writes.
 *
 * File: jal_telemetry_head at 0, then `device_count` pages of JAL_TELEMETRY_PAGE_BYTES from `device_offset`.
 * A device page is sequence-locked: `sequence` is odd while it is written; a reader copies the page between two equal
 * even reads and gives up (torn) after a bounded number of tries. A tag keeps its meaning for ever; unknown tags are
 * skipped. Idle pages are static: ENERGY_NJ and times are as of CLOCK_PS; with JAL_CLOCK_VIRTUAL nothing advances while
 * no work is pending, so they stay exact. Alive = the instance's lock file cannot be locked (flock). */
#ifndef JAL_ABI_TELEMETRY_H
#define JAL_ABI_TELEMETRY_H

#include "base.h"
#include "power.h"

#define JAL_TELEMETRY_MAGIC 0x314c454cu /* "LEL1" */
#define JAL_TELEMETRY_VERSION 1u
#define JAL_TELEMETRY_PAGE_BYTES 4096u
#define JAL_TELEMETRY_ENTRIES 250u

typedef struct jal_telemetry_head {
  uint32_t magic; /* written last, with release */
  uint32_t version;
  uint32_t device_count;
  uint32_t device_offset;
  char instance[64]; /* name of the instance */
  char version_text[24];
  uint64_t start_unix_ns;
  uint32_t clock_kind;
  uint32_t emulated;   /* 1: emulator */
  uint32_t is_private; /* 1: lives in the process of its only client */
  uint32_t owner_pid;  /* for display; never an identity */
  char program[64];    /* of the owner, for display */
  uint64_t reserved[8];
} jal_telemetry_head;
JAL_ABI_SIZE(jal_telemetry_head, 256);

typedef struct jal_telemetry_entry {
  uint32_t tag;   /* JAL_TAG_* */
  uint32_t index; /* of unit, phase, state ... ; 0 where the tag has none */
  uint64_t value;
} jal_telemetry_entry;
JAL_ABI_SIZE(jal_telemetry_entry, 16);

typedef struct jal_telemetry_page {
  uint64_t sequence;
  uint32_t count; /* entries in use */
  uint32_t reserved0;
  uint64_t update_unix_ns; /* host time of the last update */
  char model[32];
  uint64_t reserved[5];
  jal_telemetry_entry entry[JAL_TELEMETRY_ENTRIES];
} jal_telemetry_page;
JAL_ABI_SIZE(jal_telemetry_page, JAL_TELEMETRY_PAGE_BYTES);

/* X(NAME, tag, indexed by, unit, meaning) */
#define JAL_TELEMETRY_LIST(X)                                                                          \
  X(STATE, 1, "", "", "device state, JAL_DEVICE_STATE_*")                                              \
  X(UUID, 2, "half", "", "identity, two 64-bit halves")                                                \
  X(CLOCK_PS, 3, "", "ps", "device time")                                                              \
  X(ENERGY_NJ, 4, "", "nJ", "package energy since the epoch began")                                    \
  X(ENERGY_EPOCH, 5, "", "", "counts resets of the energy counters")                                   \
  X(POWER_STATIC_MW, 6, "", "mW", "package power while idle in the present unit states")               \
  X(POWER_RATED_MW, 7, "", "mW", "rated package power")                                                \
  X(POWER_SUSTAINED_MW, 8, "", "mW", "sustained package power")                                        \
  X(UNIT_ENERGY_NJ, 9, "unit", "nJ", "energy of a power unit")                                         \
  X(UNIT_STATE, 10, "unit", "", "JAL_UNIT_STATE_* of a power unit")                                    \
  X(UNIT_BUSY_PS, 11, "unit", "ps", "core time a unit was busy, summed over cores")                    \
  X(PHASE, 12, "", "", "phase of the packet executed last")                                            \
  X(PHASE_ENERGY_NJ, 13, "phase", "nJ", "package energy spent in a phase")                             \
  X(PHASE_TIME_PS, 14, "phase", "ps", "device time spent in a phase")                                  \
  X(PHASE_TOKENS, 15, "phase", "tokens", "tokens counted in a phase")                                  \
  X(HBM_TOTAL, 16, "", "bytes", "HBM of the chip")                                                     \
  X(HBM_USABLE, 17, "", "bytes", "HBM that clients can allocate")                                      \
  X(HBM_RESERVED, 18, "", "bytes", "HBM kept by firmware")                                             \
  X(HBM_USED, 19, "", "bytes", "HBM granted to clients, whole pages")                                  \
  X(BYTES_LOCAL, 20, "", "bytes", "HBM bytes moved between a core and its own slice")                  \
  X(BYTES_REMOTE, 21, "", "bytes", "HBM bytes moved between a core and another slice")                 \
  X(BYTES_COLLECTIVE, 22, "", "bytes", "bytes over the collective network")                            \
  X(BYTES_NOC, 23, "", "bytes", "bytes over the NoC")                                                  \
  X(BYTES_HOST, 24, "", "bytes", "bytes copied from and to the host")                                  \
  X(PACKETS, 25, "", "packets", "packets completed")                                                   \
  X(DISPATCHES, 26, "", "dispatches", "kernels completed")                                             \
  X(ERRORS, 27, "", "records", "error records written")                                                \
  X(CLIENTS, 28, "", "", "attached clients")                                                           \
  X(QUEUES, 29, "", "", "queues in use")                                                               \
  X(PENDING, 30, "", "packets", "packets published and not completed")                                 \
  X(PENDING_DEADLINE_UNIX_NS, 31, "", "ns", "host time by which pending work must progress, 0 = none") \
  X(HEARTBEAT, 32, "", "", "step count; moves only while work is pending")                             \
  X(POST_CODE, 33, "", "", "boot post code")                                                           \
  X(CORES, 34, "", "", "cores of the chip")                                                            \
  X(DISPATCH_TIME_PS, 35, "", "ps", "device time in which at least one kernel ran")

#define JAL_TELEMETRY_X(name, tag, index, unit, meaning) JAL_TAG_##name = tag,
enum { JAL_TELEMETRY_LIST(JAL_TELEMETRY_X) JAL_TAG_END_ };
#undef JAL_TELEMETRY_X

#define JAL_DEVICE_STATE_BOOTING 0u
#define JAL_DEVICE_STATE_OK 1u
#define JAL_DEVICE_STATE_FAILED 2u
#define JAL_DEVICE_STATE_LOST 3u

#endif
