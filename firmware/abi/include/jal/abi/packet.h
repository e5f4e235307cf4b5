/* Command packets and the queue that carries them.
 *
 * One stream = one queue: a ring of 64-byte slots, written by one host thread at a time, consumed strictly in order by
 * the command processor. Publishing: the client fills bytes 4..63, then stores the header word with release; its lap
 * bit (bit 31) equals 1 on even laps (lap 0, 2, ...) and 0 on odd ones, so a zeroed ring is empty. The consumer reads
 * the header with acquire, copies the packet, then looks at the copy only. `consumed` is credit: the client may write
 * slot n once n - consumed < depth. The doorbell only wakes a sleeping consumer. */
#ifndef JAL_ABI_PACKET_H
#define JAL_ABI_PACKET_H

#include "base.h"

#define JAL_PACKET_INVALID 0u
#define JAL_PACKET_COPY 1u
#define JAL_PACKET_FILL 2u
#define JAL_PACKET_DISPATCH 3u
#define JAL_PACKET_EVENT_SIGNAL 4u
#define JAL_PACKET_EVENT_WAIT 5u
#define JAL_PACKET_COLLECTIVE 6u /* reserved: answered UNIMPLEMENTED without JAL_FEATURE_COLLECTIVE */
#define JAL_PACKET_PHASE 7u
#define JAL_PACKET_COUNT 8u
#define JAL_PACKET_TIMESTAMP 9u
#define JAL_PACKET_GRAPH_REPLAY 10u /* reserved: answered UNIMPLEMENTED without JAL_FEATURE_GRAPH */
#define JAL_PACKET_IDLE 11u
#define JAL_PACKET_TYPE_LIST(X)      \
  X(COPY, 1, "copy")                 \
  X(FILL, 2, "fill")                 \
  X(DISPATCH, 3, "dispatch")         \
  X(EVENT_SIGNAL, 4, "event_signal") \
  X(EVENT_WAIT, 5, "event_wait")     \
  X(COLLECTIVE, 6, "collective")     \
  X(PHASE, 7, "phase")               \
  X(COUNT, 8, "count") X(TIMESTAMP, 9, "timestamp") X(GRAPH_REPLAY, 10, "graph_replay") X(IDLE, 11, "idle")

/* Header word: type 0..7, flags 8..15, reserved 16..30 (zero), lap bit 31. */
#define JAL_PACKET_TYPE(header) ((header)&0xffu)
#define JAL_PACKET_FLAGS(header) (((header) >> 8) & 0xffu)
#define JAL_PACKET_RESERVED_MASK 0x7fff0000u
#define JAL_PACKET_LAP_BIT 0x80000000u
#define JAL_PACKET_FLAG_OVERLAP 1u /* may start before the queue's previous packet has ended */
#define JAL_PACKET_FLAG_AFTER_HOST                                                                \
  2u /* the client has waited for this queue since its previous packet: the host's latency passes \
        before this one starts. Set by what the program does, so modelled time stays exact */
#define JAL_PACKET_FLAG_MASK 3u

/* Typed views of the payload. In a packet the first field is p0, the 64-bit fields follow in p[0], p[1], ... */
typedef struct jal_copy_payload {
  uint32_t reserved;
  uint64_t dst;        /* device address */
  uint64_t src;        /* device address */
  uint64_t bytes;      /* slice_mask = 0: all; else per slice */
  uint64_t slice_mask; /* 0 = plain. Else exactly one of dst, src is HBM with slice 0: that side visits the slices of
                          the mask at one offset, the other side advances linearly by bytes per slice */
} jal_copy_payload;

typedef struct jal_fill_payload {
  uint32_t pattern; /* repeated; bytes and dst are multiples of 4 */
  uint64_t dst;
  uint64_t bytes;      /* slice_mask = 0: all; else per slice */
  uint64_t slice_mask; /* as for copy */
  uint64_t reserved;
} jal_fill_payload;

typedef struct jal_dispatch_payload {
  uint32_t module_kernel; /* module id << 16 | kernel index */
  uint64_t core_mask;     /* taken all or nothing */
  uint64_t arguments;     /* byte offset in the queue's argument ring << 32 | bytes (<= JAL_ARGUMENT_BYTES_MAX) */
  uint64_t tag;           /* free for the client; appears in traces and error records */
  uint64_t reserved;
} jal_dispatch_payload;

typedef struct jal_phase_payload {
  uint32_t phase; /* JAL_PHASE_* from here on in this queue */
  uint64_t reserved[4];
} jal_phase_payload;

typedef struct jal_count_payload {
  uint32_t phase;  /* the phase the tokens belong to */
  uint64_t tokens; /* added to the phase's token counter */
  uint64_t reserved[3];
} jal_count_payload;

typedef struct jal_idle_payload {
  uint32_t reserved0;
  uint64_t idle_ns; /* device time passes without work, at most one hour */
  uint64_t reserved[3];
} jal_idle_payload;

typedef struct jal_packet {
  uint32_t header;
  uint32_t wait_event; /* JAL_EVENT_NONE or index: start when its value >= wait_value */
  uint64_t wait_value;
  uint64_t signal_value; /* EVENT_SIGNAL, TIMESTAMP and every other type: at completion the event takes this value */
  uint32_t signal_event; /* JAL_EVENT_NONE or index */
  uint32_t p0;           /* payload, 36 bytes: a view's 32-bit field travels in p0, its four 64-bit fields in p[0..3] */
  uint64_t p[4];
} jal_packet;
JAL_ABI_SIZE(jal_packet, 64);
JAL_ABI_OFFSET(jal_packet, wait_value, 8);
JAL_ABI_OFFSET(jal_packet, signal_event, 24);
JAL_ABI_OFFSET(jal_packet, p0, 28);
JAL_ABI_OFFSET(jal_packet, p, 32);

#define JAL_PAYLOAD_VIEW(view)                                                     \
  JAL_ABI_SIZE(view, 40);                                                          \
  static inline void view##_encode(const view* from, jal_packet* to) {             \
    const void* view_bytes = from;                                                 \
    void* packet_bytes = to;                                                       \
    const unsigned char* bytes = JAL_ABI_CAST(const unsigned char*, view_bytes);   \
    unsigned char* out = JAL_ABI_CAST(unsigned char*, packet_bytes);               \
    for (int i = 0; i < 4; ++i) out[28 + i] = bytes[i];                            \
    for (int i = 0; i < 32; ++i) out[32 + i] = bytes[8 + i];                       \
  }                                                                                \
  static inline view view##_decode(const jal_packet* from) {                       \
    view to;                                                                       \
    const void* packet_bytes = from;                                               \
    void* view_bytes = &to;                                                        \
    const unsigned char* bytes = JAL_ABI_CAST(const unsigned char*, packet_bytes); \
    unsigned char* out = JAL_ABI_CAST(unsigned char*, view_bytes);                 \
    for (int i = 0; i < 4; ++i) out[i] = bytes[28 + i];                            \
    for (int i = 4; i < 8; ++i) out[i] = 0;                                        \
    for (int i = 0; i < 32; ++i) out[8 + i] = bytes[32 + i];                       \
    return to;                                                                     \
  }
JAL_PAYLOAD_VIEW(jal_copy_payload)
JAL_PAYLOAD_VIEW(jal_fill_payload)
JAL_PAYLOAD_VIEW(jal_dispatch_payload)
JAL_PAYLOAD_VIEW(jal_phase_payload)
JAL_PAYLOAD_VIEW(jal_count_payload)
JAL_PAYLOAD_VIEW(jal_idle_payload)

#define JAL_QUEUES_PER_CLIENT 32u
#define JAL_QUEUE_DEPTH_MIN 16u
#define JAL_QUEUE_DEPTH_MAX 4096u
/* Argument ring: blocks lie in publishing order, each at a multiple of JAL_ARGUMENT_ALIGN and never across the ring's
 * end (what is left there is skipped). argument_head counts bytes used with the skips; the device returns a block by
 * moving argument_tail past it once it has copied the arguments, before the dispatch runs. A block may be written once
 * head - tail + its bytes fit the ring. */
#define JAL_ARGUMENT_BYTES_MAX 4096u /* of one dispatch */
#define JAL_ARGUMENT_ALIGN 64u       /* of each dispatch's block in the ring */

#define JAL_QUEUE_STATE_FREE 0u
#define JAL_QUEUE_STATE_RUNNING 1u
#define JAL_QUEUE_STATE_POISONED 2u /* drops packets, poisons their signals, until recovered */

/* One per queue, in the client region. Separate cache lines for the two writers. */
typedef struct jal_queue_control {
  uint64_t published;     /* client: packets written so far (doorbell value) */
  uint64_t argument_head; /* client: bytes of the argument ring ever used */
  uint64_t reserved0[6];
  uint64_t consumed;      /* device: packets whose slot may be reused */
  uint64_t completed;     /* device: packets completed or dropped */
  uint64_t argument_tail; /* device: bytes of the argument ring that may be reused */
  uint32_t state;         /* device: JAL_QUEUE_STATE_* */
  uint32_t epoch;         /* device: creations of this index and recoveries so far */
  uint32_t record;        /* device: error record that poisoned the queue */
  int32_t status;         /* device: status that poisoned the queue */
  uint64_t time_ps;       /* device: device time at which the last packet ended */
  uint64_t reserved1[2];
} jal_queue_control;
JAL_ABI_SIZE(jal_queue_control, 128);
JAL_ABI_OFFSET(jal_queue_control, consumed, 64);

#endif
