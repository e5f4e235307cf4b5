/* The firmware's log ring: structured records, made into text by the reader from the list below.
 * Written by firmware only; `written` last, with release. A reader that fell behind sees the gap in the numbers. */
#ifndef JAL_ABI_LOG_H
#define JAL_ABI_LOG_H

#include "base.h"

#define JAL_LOG_LEVEL_ERROR 1u
#define JAL_LOG_LEVEL_WARNING 2u
#define JAL_LOG_LEVEL_INFO 3u
#define JAL_LOG_LEVEL_DEBUG 4u

/* X(NAME, id, level, format of up to four unsigned 64-bit words) */
#define JAL_LOG_LIST(X)                                                                                    \
  X(BOOT_POST, 1, JAL_LOG_LEVEL_INFO, "boot post code {}")                                                 \
  X(CLIENT_ATTACHED, 2, JAL_LOG_LEVEL_INFO, "client {} attached, abi {}")                                  \
  X(CLIENT_REFUSED, 3, JAL_LOG_LEVEL_WARNING, "client refused: its abi {}..{}, ours {}..{}")               \
  X(CLIENT_DETACHED, 4, JAL_LOG_LEVEL_INFO, "client {} detached, {} pages reclaimed")                      \
  X(QUEUE_CREATED, 5, JAL_LOG_LEVEL_DEBUG, "client {} queue {} created, depth {}")                         \
  X(QUEUE_DESTROYED, 6, JAL_LOG_LEVEL_DEBUG, "client {} queue {} destroyed")                               \
  X(QUEUE_POISONED, 7, JAL_LOG_LEVEL_WARNING, "client {} queue {} poisoned, status {}, record {}")         \
  X(QUEUE_RECOVERED, 8, JAL_LOG_LEVEL_INFO, "client {} queue {} recovered, {} packets dropped")            \
  X(PAGES_GRANTED, 9, JAL_LOG_LEVEL_DEBUG, "client {} pages {} per slice, mask {} at offset {}")           \
  X(PAGES_REFUSED, 10, JAL_LOG_LEVEL_WARNING, "client {} pages {} per slice refused, status {}, slice {}") \
  X(PAGES_FREED, 11, JAL_LOG_LEVEL_DEBUG, "client {} reservation {} freed, {} pages")                      \
  X(MODULE_LOADED, 12, JAL_LOG_LEVEL_INFO, "client {} module {} loaded, {} kernels")                       \
  X(MODULE_REFUSED, 13, JAL_LOG_LEVEL_WARNING, "client {} module refused, status {}")                      \
  X(DEVICE_LOST, 14, JAL_LOG_LEVEL_ERROR, "device lost, status {}")

#define JAL_LOG_X(name, id, level, format) JAL_LOG_##name = id,
enum { JAL_LOG_LIST(JAL_LOG_X) JAL_LOG_END_ };
#undef JAL_LOG_X

typedef struct jal_log_entry {
  uint64_t time_ps;
  uint32_t id;
  uint32_t level;
  uint64_t word[4];
} jal_log_entry;
JAL_ABI_SIZE(jal_log_entry, 48);

#define JAL_LOG_ENTRIES 256u
typedef struct jal_log_ring {
  uint64_t written; /* entries ever written; slot n % JAL_LOG_ENTRIES */
  uint64_t reserved[7];
  jal_log_entry entry[JAL_LOG_ENTRIES];
} jal_log_ring;
JAL_ABI_SIZE(jal_log_ring, 64 + 256 * 48);

#endif
