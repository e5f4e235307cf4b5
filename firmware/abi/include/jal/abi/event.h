/* Events: a 64-bit timeline. The truth is in firmware; the client reads a mirror.
 *
 * Who writes: firmware alone writes a mirror; value last, with release. The client reads value with acquire; when it
 * has reached the awaited value, status, record and the times of that signal may be read. A poisoned event has status
 * != 0 and value UINT64_MAX, so that every waiter wakes. */
#ifndef JAL_ABI_EVENT_H
#define JAL_ABI_EVENT_H

#include "base.h"

#define JAL_EVENT_NONE 0u     /* packets: no wait, no signal */
#define JAL_EVENT_COUNT 4096u /* per client and device; index 0 is JAL_EVENT_NONE */
#define JAL_EVENT_POISONED UINT64_MAX

typedef struct jal_event_mirror {
  uint64_t value;    /* timeline position reached */
  int32_t status;    /* 0, or why the event is poisoned */
  uint32_t record;   /* error record id, 0 = none */
  uint64_t start_ps; /* device time at which the signalling packet started */
  uint64_t end_ps;   /* device time at which it ended */
} jal_event_mirror;
JAL_ABI_SIZE(jal_event_mirror, 32);

#endif
