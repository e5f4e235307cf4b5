/* What one core offers to a kernel's binary: the instruction set of the spatial programming model, as a table of verbs.
 *
 * What it is not: the API kernels are written in (core.hpp wraps it). A kernel binary has no undefined symbols; all it
 * can do to the chip goes through this table, natively in the emulator and, later, as custom instructions on RV64.
 * Rules: every verb issues and returns a completion ticket; only wait, the collectives and recv block. A verb that is
 * misused never returns: the core faults, and the dispatch fails with a record that names kernel, core, file and line.
 * Tiles are opaque L1 buffers. A load may alias HBM bytes; bytes are copied only for a written view or when their
 * source changes. Time: a ticket carries the modelled completion time; results do not depend on it. */
#ifndef JAL_KERNEL_CORE_ABI_H
#define JAL_KERNEL_CORE_ABI_H

#include <jal/abi/base.h>
#include <stddef.h>
#include <stdint.h>

#define JAL_CORE_VERSION 2u

/* Tickets and tiles, which every verb takes and gives, are one register each: fields that are written apart and read
 * together stall a processor (measured: a verb then takes three times as long). */

/* Completion ticket of an engine operation. 0 is "already complete". */
typedef struct jal_ev {
  uint64_t bits; /* from the low end: operation's number on this core (mod 2^17), JAL_ENGINE_*, time */
} jal_ev;

#define JAL_EV_SEQUENCE_BITS 17u
#define JAL_EV_TIME_SHIFT 20u
#define JAL_EV_TIME_MAX ((1ull << (64 - JAL_EV_TIME_SHIFT)) - 1) /* 17.5 s of device time: a dispatch's limit */

/* time_ps: since the start of the dispatch, <= JAL_EV_TIME_MAX. */
static inline jal_ev jal_ev_make(uint64_t time_ps, uint32_t engine, uint32_t sequence) {
  jal_ev ev;
  ev.bits = time_ps << JAL_EV_TIME_SHIFT | JAL_ABI_CAST(uint64_t, engine) << JAL_EV_SEQUENCE_BITS |
            (sequence & ((1u << JAL_EV_SEQUENCE_BITS) - 1));
  return ev;
}
static inline uint64_t jal_ev_time_ps(jal_ev ev) { return ev.bits >> JAL_EV_TIME_SHIFT; }
static inline uint32_t jal_ev_engine(jal_ev ev) { return JAL_ABI_CAST(uint32_t, ev.bits >> JAL_EV_SEQUENCE_BITS) & 7u; }
/* The operation's whole number, given that of the core's latest operation: right for the last 2^17. */
static inline uint32_t jal_ev_sequence(jal_ev ev, uint32_t latest) {
  return latest - ((latest - JAL_ABI_CAST(uint32_t, ev.bits)) & ((1u << JAL_EV_SEQUENCE_BITS) - 1));
}

#define JAL_ENGINE_NONE 0u
#define JAL_ENGINE_DMA 1u
#define JAL_ENGINE_MATRIX 2u
#define JAL_ENGINE_VECTOR 3u
#define JAL_ENGINE_COLLECTIVE 4u
#define JAL_ENGINE_NOC 5u

/* Where a verb was called: static strings of the kernel's binary. */
typedef struct jal_site {
  const char* file;
  uint32_t line;
} jal_site;

/* An L1 tile: slot of this core's tile table and a byte range of it. 0 is no tile. */
typedef struct jal_tile {
  uint64_t bits; /* id, then JAL_TILE_BITS each of offset and bytes, from the low end */
} jal_tile;

#define JAL_TILE_BITS 25u
#define JAL_TILE_MAX ((1u << JAL_TILE_BITS) - 1) /* larger than any L1, which has 16 MiB at most */
#define JAL_TILE_ID_MAX 16383u                   /* tiles at a time */

/* id <= JAL_TILE_ID_MAX. An offset or a size beyond JAL_TILE_MAX becomes that, which every verb refuses. */
static inline jal_tile jal_tile_make(uint32_t id, uint64_t offset, uint64_t bytes) {
  jal_tile tile;
  if (offset > JAL_TILE_MAX) offset = JAL_TILE_MAX;
  if (bytes > JAL_TILE_MAX) bytes = JAL_TILE_MAX;
  tile.bits = bytes << (64 - JAL_TILE_BITS) | offset << (64 - 2 * JAL_TILE_BITS) | id;
  return tile;
}
/* Number of the slot, from 1; sub-tiles share it. */
static inline uint32_t jal_tile_id(jal_tile tile) { return JAL_ABI_CAST(uint32_t, tile.bits) & JAL_TILE_ID_MAX; }
/* Bytes from the slot's start. */
static inline uint32_t jal_tile_offset(jal_tile tile) {
  return JAL_ABI_CAST(uint32_t, tile.bits >> (64 - 2 * JAL_TILE_BITS)) & JAL_TILE_MAX;
}
static inline uint32_t jal_tile_bytes(jal_tile tile) {
  return JAL_ABI_CAST(uint32_t, tile.bits >> (64 - JAL_TILE_BITS));
}

/* Operations that must be complete before an engine starts. Engines wait for them; the core does not. */
typedef struct jal_after {
  const jal_ev* ev;
  uint64_t count;
} jal_after;

/* Matrix engine: y[token][row] = dot(weights[row], x[token]) for rows < rows, token < m. docs/engine_numerics.md. */
typedef struct jal_gemm_op {
  jal_tile weights;          /* weight tile (JAL_TILING_ENGINE) of `rows` rows by k */
  jal_tile operand;          /* made by prepare() with the same k, m and activation */
  jal_tile y;                /* FP32 [m][y_stride] */
  uint32_t weight_dtype;     /* JAL_DTYPE_BF16, _MXFP8, _MXFP4 */
  uint32_t activation_dtype; /* JAL_DTYPE_F32 or _BF16: what the operand was prepared as */
  uint32_t rows, k, m;
  uint32_t y_stride; /* FP32 elements between tokens, >= rows */
  uint32_t panels;   /* 8 for a whole K dimension; 8 / n for one of n K shares */
} jal_gemm_op;

/* prepare: FP32 x[m][x_stride] -> operand tile. */
typedef struct jal_prepare_op {
  jal_tile x, operand;
  uint32_t activation_dtype;
  uint32_t k, m, x_stride;
} jal_prepare_op;

/* Attention of a group of query rows over one KV page. FP32 q [rows][head_dim]; BF16 keys, values [tokens][head_dim];
 * parts: FP32 [rows][head_dim + 2] = o[head_dim], m, l per row. */
typedef struct jal_attention_op {
  jal_tile q, keys, values, parts;
  jal_tile visible; /* u32 per row: sees tokens [0, visible) of the page; {0} = all */
  uint32_t rows, head_dim, tokens, q_stride;
  float scale;
} jal_attention_op;

/* Vector functions. a, b, c and out are FP32 tiles unless said. n in elements. */
#define JAL_VEC_COPY 1u /* out = a */
#define JAL_VEC_FILL 2u /* out = s0 */
#define JAL_VEC_ADD 3u  /* out = a + b */
#define JAL_VEC_SUB 4u
#define JAL_VEC_MUL 5u
#define JAL_VEC_FMA 6u   /* out = a * b + c, one rounding */
#define JAL_VEC_AXPY 7u  /* out = s0 * a + b, one rounding */
#define JAL_VEC_SCALE 8u /* out = s0 * a */
#define JAL_VEC_EXP 9u
#define JAL_VEC_SILU 10u
#define JAL_VEC_SWIGLU 11u      /* out = silu(a) * b */
#define JAL_VEC_SUM 12u         /* out[0] */
#define JAL_VEC_SUM_SQUARES 13u /* out[0] */
#define JAL_VEC_MAX 14u         /* out[0] */
#define JAL_VEC_RMSNORM 15u     /* out = a * (1 / sqrt(mean(a^2) + s0)) * b; rows of n elements: see rows */
#define JAL_VEC_SOFTMAX 16u
#define JAL_VEC_ROPE_PAIRS 17u /* out = rotate(a) by cos b, sin c; n = elements of a row, pairs (2i, 2i+1) */
#define JAL_VEC_ROPE_HALVES 18u
#define JAL_VEC_ROPE_TABLE 19u     /* out[0..n/2) = cos, out[n/2..n) = sin of position u0 * base^(-2i/n); base = s0 */
#define JAL_VEC_BF16_FROM_F32 20u  /* out BF16 */
#define JAL_VEC_F32_FROM_BF16 21u  /* a BF16 */
#define JAL_VEC_ARGMAX 22u         /* out u32[1] */
#define JAL_VEC_TOP_K 23u          /* out: k = u0 records {u32 index, f32 value} */
#define JAL_VEC_SOFTMAX_FINISH 24u /* a: parts [rows][n + 2] -> out [rows][n] = o / l; n = head_dim */
#define JAL_VEC_COUNT 25u
typedef struct jal_vec_op {
  uint32_t fn;
  uint32_t n;                                        /* elements of a row */
  uint32_t rows;                                     /* the function is applied to `rows` rows; 0 means 1 */
  uint32_t a_stride, b_stride, c_stride, out_stride; /* elements between rows; 0 = the same row for every row */
  uint32_t u0;
  float s0;
  jal_tile a, b, c, out;
} jal_vec_op;

/* Groups are masks over a dispatch's core INDICES (0 .. count - 1). Every member calls with the same mask and
 * operation. */
#define JAL_COLL_BARRIER 1u
#define JAL_COLL_BROADCAST 2u /* root's src -> every dst */
#define JAL_COLL_ALLGATHER                                                                     \
  3u /* dst of every member = members' parts in ascending index: for each of `outer` rows, the \
        members' inner parts of src.bytes / outer side by side; parts may differ in size */
#define JAL_COLL_ALLREDUCE 4u /* FP32, element-wise, in the bracket over the members' order; op */
#define JAL_COLL_REDUCE 5u    /* as allreduce, dst of root only */
#define JAL_COLL_MERGE                                                                                \
  6u /* softmax parts: every member brings `items` parts of [rows][head_dim + 2] FP32 in src with     \
        their leaf number in leaf[]; slots: leaf / leaf_stride is the slot (for example a KV          \
        head), leaf % leaf_stride the place in that slot's bracket of leaf_count leaves; dst of every \
        member = [slots][rows][head_dim] FP32 = merged o / l */
#define JAL_REDUCE_SUM 1u
#define JAL_REDUCE_MAX 2u
#define JAL_REDUCE_ARGMAX 3u /* records {f32 value, u32 index}: largest value, then lowest index */
typedef struct jal_coll_op {
  uint32_t kind;
  uint32_t op;
  uint64_t group; /* mask of core indices; includes the caller */
  uint32_t root;  /* core index */
  uint32_t outer; /* allgather: rows, >= 1 */
  jal_tile src, dst;
  /* merge only */
  const uint32_t* leaf;
  uint32_t items, slots, leaf_stride, leaf_count, rows, head_dim;
} jal_coll_op;

#define JAL_VIEW_READ 1u
#define JAL_VIEW_WRITE 2u /* contents may be read too */

struct jal_core;
typedef struct jal_core_verbs {
  uint32_t struct_size;
  uint32_t version;
  jal_tile (*alloc)(struct jal_core*, uint32_t bytes, const jal_site*); /* 64-byte aligned L1; faults L1_OVERFLOW */
  void (*release)(struct jal_core*, jal_tile from, const jal_site*);    /* frees this tile and all allocated after it */
  jal_ev (*load)(struct jal_core*, jal_tile dst, uint64_t src, uint32_t bytes, jal_after, const jal_site*);
  jal_ev (*store)(struct jal_core*, uint64_t dst, jal_tile src, uint32_t bytes, jal_after, const jal_site*);
  void (*wait)(struct jal_core*, jal_ev, const jal_site*);
  void* (*view)(struct jal_core*, jal_tile, uint32_t mode,
                const jal_site*); /* valid until the tile is a destination again or released */
  jal_ev (*prepare)(struct jal_core*, const jal_prepare_op*, jal_after, const jal_site*);
  jal_ev (*gemm)(struct jal_core*, const jal_gemm_op*, jal_after, const jal_site*);
  jal_ev (*attention)(struct jal_core*, const jal_attention_op*, jal_after, const jal_site*);
  jal_ev (*vec)(struct jal_core*, const jal_vec_op*, jal_after, const jal_site*);
  jal_ev (*collective)(struct jal_core*, const jal_coll_op*, jal_after,
                       const jal_site*); /* blocks until every member came */
  jal_ev (*send)(struct jal_core*, uint32_t to_index, jal_tile src, jal_after,
                 const jal_site*); /* NoC; the tile may be reused after the ticket */
  jal_ev (*recv)(struct jal_core*, uint32_t from_index, jal_tile dst, const jal_site*); /* blocks; sizes must match */
  void (*print)(struct jal_core*, const char* text, uint32_t bytes);
  void (*fault)(struct jal_core*, int32_t status, const char* text, const jal_site*); /* does not return */
  uint64_t (*clock)(struct jal_core*);                                                /* this core's device time, ps */
  uint32_t (*operand_bytes)(uint32_t activation_dtype, uint32_t k, uint32_t m);
  uint64_t (*weight_tile_bytes)(uint32_t weight_dtype, uint32_t rows, uint32_t k);
  void* reserved[6];
} jal_core_verbs;

/* The readable prefix of a core. The rest belongs to the chip. */
typedef struct jal_core {
  const jal_core_verbs* verbs;
  const void* arguments; /* the argument block, typed by the kernel's entry */
  uint32_t argument_bytes;
  uint32_t core_id; /* physical: 0 .. cores of the chip - 1; also the number of its local HBM slice */
  uint32_t index;   /* 0 .. count - 1: rank among the cores of this dispatch, ascending core_id */
  uint32_t count;   /* cores of this dispatch */
  uint32_t grid_rows, grid_cols;
  uint32_t l1_bytes;
  uint32_t chip_cores;
  uint64_t core_mask; /* physical cores of this dispatch */
} jal_core;

/* A kernel's entry symbol. */
typedef void (*jal_kernel_function)(struct jal_core*);

#endif
