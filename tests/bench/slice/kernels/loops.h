/* Arguments of the kernels of bench_loops.jko. */
#ifndef JAL_BENCH_LOOPS_H
#define JAL_BENCH_LOOPS_H

#include <stdint.h>

/* verb_loop: which verb. */
#define JAL_LOOP_ADD 1u
#define JAL_LOOP_LOAD 2u
#define JAL_LOOP_STORE 3u
#define JAL_LOOP_GEMM 4u
#define JAL_LOOP_WAIT 5u
#define JAL_LOOP_ALLOC 6u

/* gemv_stream. Offsets count in every slice and are multiples of 64. */
typedef struct jal_gemv_stream {
  uint64_t weights_offset; /* `tiles` weight tiles, one after another */
  uint64_t x_offset;       /* FP32 [k], core 0's slice */
  uint64_t y_offset;       /* FP32 [rows] */
  uint32_t weight_dtype;
  uint32_t rows;
  uint32_t k;
  uint32_t tiles;
} jal_gemv_stream;

#endif
