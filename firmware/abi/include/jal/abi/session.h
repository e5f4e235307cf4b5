/* A client's session with one device: the client region, the handshake, the mailbox, error records, the text ring.
 *
 * The client region is memory of the client that the device maps: the head below at offset 0, rings behind it where
 * QUEUE_CREATE puts them. Words marked (c) are written by the client, (d) by the device, and by nobody else.
 *
 * Handshake: the client zeroes the region, fills `client`, stores client.magic with release and attaches. The firmware
 * copies and checks it, fills `device` and chip info, stores device.magic last with release. The agreed version is the
 * highest common one. Mailbox: one request at a time. The client fills opcode and arg, then stores request.sequence =
 * last + 1 with release; the firmware answers by storing response.sequence = that number last with release. */
#ifndef JAL_ABI_SESSION_H
#define JAL_ABI_SESSION_H

#include "base.h"
#include "event.h"
#include "packet.h"
#include "power.h"
#include "status.h"

#define JAL_ABI_VERSION_MIN 1u
#define JAL_ABI_VERSION_MAX 1u
#define JAL_CLIENT_MAGIC 0x4c4a4c43u
#define JAL_DEVICE_MAGIC 0x4c4a5644u

#define JAL_FEATURE_HOST_VA (1ull << 0)    /* host virtual addresses are accepted (client in the emulator's process) */
#define JAL_FEATURE_EMULATED (1ull << 1)   /* time, power and energy are modelled */
#define JAL_FEATURE_NATIVE (1ull << 2)     /* runs JAL_ARCH_NATIVE_X86_64 modules */
#define JAL_FEATURE_RV64 (1ull << 3)       /* runs JAL_ARCH_RV64IMAC modules */
#define JAL_FEATURE_COLLECTIVE (1ull << 4) /* COLLECTIVE packets */
#define JAL_FEATURE_GRAPH (1ull << 5)      /* GRAPH_REPLAY packets */

typedef struct jal_handshake {
  uint32_t magic; /* written last, with release */
  uint32_t abi_min;
  uint32_t abi_max;
  uint32_t abi_agreed; /* device only; 0 = refused, see status */
  uint64_t features;   /* offered (device) or understood (client) */
  char version[24];    /* semantic version, NUL-terminated */
  uint8_t build_id[32];
  int32_t status; /* device only: 0 or why it refused */
  uint32_t reserved[9];
} jal_handshake;
JAL_ABI_SIZE(jal_handshake, 120);

/* What the chip is. Written by the device before device.magic. */
typedef struct jal_chip_info {
  char model[32]; /* name of the model file, e.g. "jal1-a0" */
  uint64_t uuid[2];
  uint32_t cores;
  uint32_t slices;
  uint32_t grid_rows; /* cores = grid_rows * grid_cols, flat number = row * grid_cols + col */
  uint32_t grid_cols;
  uint64_t slice_bytes;          /* usable HBM of one slice, a multiple of the page */
  uint64_t chip_bytes;           /* all HBM of the package */
  uint64_t reserved_bytes;       /* kept by firmware, all slices */
  uint64_t hbm_bytes_per_second; /* all slices */
  uint32_t l1_bytes;
  uint32_t clock_kind; /* JAL_CLOCK_* */
  uint32_t rated_milliwatts;
  uint32_t sustained_milliwatts;
  uint64_t clock_hz;
  uint32_t device_index;
  uint32_t reserved0;
  uint64_t reserved[8];
} jal_chip_info;
JAL_ABI_SIZE(jal_chip_info, 192);

/* Boot post codes, in order. A device that stopped shows the last one reached. */
#define JAL_POST_RESET 0u
#define JAL_POST_CLOCK 1u
#define JAL_POST_MEMORY 2u
#define JAL_POST_CORES 3u
#define JAL_POST_POWER 4u
#define JAL_POST_TELEMETRY 5u
#define JAL_POST_READY 6u
#define JAL_POST_FAILED 0x80u /* or-ed to the step that failed */

/* Mailbox operations. arg[] and result[] as listed; unused words are zero. */
#define JAL_MAILBOX_QUEUE_CREATE \
  1u /* arg: queue index, ring offset, log2 depth, argument ring offset, argument ring bytes (power of two) */
#define JAL_MAILBOX_QUEUE_DESTROY 2u /* arg: queue index */
#define JAL_MAILBOX_QUEUE_RECOVER 3u /* arg: queue index; drops what is queued; result: dropped packets, new epoch */
#define JAL_MAILBOX_PAGES_ALLOC \
  4u /* arg: slice mask, pages per slice, bytes used per slice, flags; result: offset, reservation id */
#define JAL_MAILBOX_PAGES_FREE 5u /* arg: reservation id */
#define JAL_MAILBOX_PAGES_QUERY                                                                                      \
  6u /* arg: slice; result: free pages, this client's pages, largest free run, usable pages, host budget bytes, host \
        budget used */
#define JAL_MAILBOX_MODULE_LOAD 7u   /* arg: address of the .jko (host VA), bytes; result: module id */
#define JAL_MAILBOX_MODULE_UNLOAD 8u /* arg: module id */
#define JAL_MAILBOX_CLOCK_QUERY 9u   /* result: device time ps */
#define JAL_MAILBOX_ECHO 10u         /* result = arg: a test of the path */
#define JAL_MAILBOX_EVENT_RESET \
  11u /* arg: event index; its timeline starts again at 0, unpoisoned. The client uses it nowhere */

/* On BAD_MODULE and other refusals MODULE_LOAD answers result: id of the error record that has the reason.
 * On HOST_BUDGET PAGES_ALLOC answers result: budget bytes, budget used.
 * On OUT_OF_DEVICE_MEMORY PAGES_ALLOC answers result: tightest slice, its largest free run in pages, its free pages,
 * largest free pages of any slice. */

typedef struct jal_mailbox_half {
  uint32_t sequence; /* written last, with release */
  uint32_t opcode;   /* request: operation; response: int32 status */
  uint64_t word[7];  /* arg or result */
} jal_mailbox_half;
JAL_ABI_SIZE(jal_mailbox_half, 64);

/* Why work failed. Written whole by the device before any event is poisoned with its id. Ring of JAL_ERROR_RECORDS. */
#define JAL_ERROR_RECORDS 64u
typedef struct jal_error_record {
  uint32_t id; /* 1, 2, ...; slot (id - 1) % JAL_ERROR_RECORDS */
  int32_t status;
  uint32_t queue;
  uint32_t packet_type;
  uint64_t packet_index; /* of the queue, from 0 */
  uint64_t tag;          /* of the dispatch */
  uint32_t core;         /* UINT32_MAX = none */
  uint32_t line;         /* of the kernel's source, 0 = unknown */
  uint64_t address;      /* offending address, 0 = none */
  uint64_t near_base;    /* nearest allocation of this client, 0 = none */
  uint64_t near_bytes;
  char kernel[64];
  char file[64];
  char text[192]; /* what happened, with values and limits */
  uint64_t reserved[16];
} jal_error_record;
JAL_ABI_SIZE(jal_error_record, 512);

/* Text that kernels print and sanitizers report, for the client's standard error: a byte ring of records
 * {uint32 bytes, uint32 core, text}, padded to 8; head and tail count bytes ever written and read. Full: the text is
 * dropped and counted. */
#define JAL_TEXT_RING_BYTES 65536u
typedef struct jal_text_ring {
  uint64_t head;    /* (d) */
  uint64_t dropped; /* (d) records that found no room */
  uint64_t reserved0[6];
  uint64_t tail; /* (c) */
  uint64_t reserved1[7];
  uint8_t data[JAL_TEXT_RING_BYTES];
} jal_text_ring;
JAL_ABI_SIZE(jal_text_ring, 65536 + 128);

typedef struct jal_client_region {
  jal_handshake client; /* (c) */
  uint64_t reserved0;
  jal_handshake device; /* (d) */
  uint64_t reserved1;
  jal_chip_info chip;   /* (d) */
  uint32_t post_code;   /* (d) */
  uint32_t lost_status; /* (d) 0, or the status that took the device down */
  uint64_t reserved2[7];
  jal_mailbox_half request;  /* (c) */
  jal_mailbox_half response; /* (d) */
  uint64_t record_count;     /* (d) error records ever written */
  uint64_t reserved3[7];
  jal_queue_control queues[JAL_QUEUES_PER_CLIENT];
  jal_event_mirror events[JAL_EVENT_COUNT];    /* (d) */
  jal_error_record records[JAL_ERROR_RECORDS]; /* (d) */
  jal_text_ring text;
} jal_client_region;
JAL_ABI_SIZE(jal_client_region, 234304);
/* Multiples of 64: no cache line has words of both sides. */
JAL_ABI_OFFSET(jal_client_region, request, 512);
JAL_ABI_OFFSET(jal_client_region, response, 576);
JAL_ABI_OFFSET(jal_client_region, queues, 704);
JAL_ABI_OFFSET(jal_client_region, events, 4800);
JAL_ABI_OFFSET(jal_client_region, text, 168640);

#endif
