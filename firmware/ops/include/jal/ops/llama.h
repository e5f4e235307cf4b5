/* Arguments and placement of the shipped kernels for models of the Llama architecture (ops_llama.jko).
 *
 * Kernel `llama_step` runs one whole step on every core of the chip: embedding, all layers, final norm, head, sampling,
 * for a chunk of a prompt (m tokens) or one token (m = 1). The host launches it with one argument, jal_llama_step, on
 * all cores. The parts of a step are kernels of their own too, with a second argument, jal_llama_part: below.
 *
 * Placement. C = cores of the chip; slice s belongs to core s. "dealt" means: ceil(rows / C) rows to each slice in
 * order, the last ones may hold fewer or none. Each dealt matrix is one sharded allocation, so its rows are contiguous
 * in host memory.
 *
 * - embedding: BF16 engine tile, vocab rows by hidden, dealt. It is the head too when head_offset equals it.
 *
 * - qkv: rows [all q heads | all k heads | all v heads] by hidden, dealt.
 *
 * - o: hidden rows by heads * head_dim, dealt.
 *
 * - gate_up: for each core its f = ceil(ffn / C) rows of gate, then its f rows of up, by hidden; missing rows are zero.
 *   Dealt as C * 2f rows.
 *
 * - down: hidden rows by ffn, dealt.
 *
 * - norms: FP32 [2 * layers + 1][hidden] on slice 0: attention norm and FFN norm of each layer, then the final norm.
 *
 * - kv: on every slice [layers][slots][2][page tokens][head_dim] BF16, keys before values. KV page p of head h is unit
 *   u = p * kv_heads + h: it lives on slice u % C in slot u / C and never moves; slots = jal_llama_kv_slots().
 *
 * Numbers are FP32 except where BF16 is said; weight and activation formats as the name says: bf16_f32, mxfp8_bf16,
 * mxfp4_bf16 (docs/engine_numerics.md). The result has the same bits for any number of cores and any chunking of the
 * prompt. */
#ifndef JAL_OPS_LLAMA_H
#define JAL_OPS_LLAMA_H

#include <jal/abi/base.h>

#define JAL_LLAMA_LAYERS_MAX 64u
#define JAL_LLAMA_CHUNK_MAX 64u /* tokens of one step */
#define JAL_LLAMA_PAGE_TOKENS 32u
#define JAL_LLAMA_TOP_K_MAX 64u

/* Offsets in every slice, multiples of 64. */
typedef struct jal_llama_layer {
  uint32_t qkv_offset;
  uint32_t o_offset;
  uint32_t gate_up_offset;
  uint32_t down_offset;
} jal_llama_layer;
JAL_ABI_SIZE(jal_llama_layer, 16);

#define JAL_LLAMA_SAMPLE 1u      /* choose the next token after the last one of the chunk; see jal_llama_result */
#define JAL_LLAMA_LOGITS_LAST 2u /* store the logits of the last token */
#define JAL_LLAMA_LOGITS_ALL 4u  /* store the logits of every token of the chunk */

typedef struct jal_llama_step {
  uint32_t layers; /* 1..JAL_LLAMA_LAYERS_MAX */
  uint32_t hidden; /* multiple of 32 */
  uint32_t ffn;    /* multiple of 32 */
  uint32_t heads;  /* multiple of kv_heads */
  uint32_t kv_heads;
  uint32_t head_dim; /* even, 2..256 */
  uint32_t vocab;
  uint32_t weight_dtype; /* of the layers' matrices: JAL_DTYPE_BF16, _MXFP8, _MXFP4 */
  float norm_epsilon;
  float rope_base;
  uint32_t tokens;   /* m: 0..JAL_LLAMA_CHUNK_MAX; 0 does nothing */
  uint32_t position; /* of the first token; position + m <= the context that kv was made for */
  uint32_t kv_slots; /* units of one layer that a slice holds */
  uint32_t flags;    /* JAL_LLAMA_* */
  float temperature; /* 0: the most likely token */
  float top_p;       /* (0, 1]; 1 keeps all */
  uint32_t top_k;    /* 1..JAL_LLAMA_TOP_K_MAX candidates when temperature > 0 */
  uint32_t embedding_offset;
  uint32_t head_offset;
  uint32_t norms_offset; /* slice 0 */
  uint32_t kv_offset;
  uint32_t result_offset; /* slice 0: jal_llama_result */
  uint32_t logits_offset; /* every slice: FP32 [rows stored][ceil(vocab / C)]; only with a LOGITS flag */
  uint32_t reserved;
  uint64_t seed;
  jal_llama_layer layer[JAL_LLAMA_LAYERS_MAX];
  uint32_t token[JAL_LLAMA_CHUNK_MAX];
} jal_llama_step;
JAL_ABI_SIZE(jal_llama_step, 104 + 64 * 16 + 64 * 4);

/* One operation of a step as a kernel of its own: for other schedules, profiles and tests. Input and output are FP32 on
 * slice 0; m = step.tokens. From jal_llama_step each reads the shape words it names. What is larger than L1 goes
 * through it in pieces; one token's values (attention: and its softmax parts) and one row of a matrix must fit.
 *
 * - llama_embed: y[m][hidden] = embedding rows of step.token. hidden, vocab, embedding_offset.
 *
 * - llama_rmsnorm: y[m][hidden] = x normalised times the vector at norms_offset. hidden, norm_epsilon.
 *
 * - llama_gemm_bf16_f32, llama_gemm_mxfp8_bf16, llama_gemm_mxfp4_bf16: y[m][rows] = x[m][k] by the dealt matrix at
 *   matrix_offset. With panels = 8 / n, k and x are the share of one of n = 2, 4, 8 chips of a K dimension (cut as
 *   docs/engine_numerics.md, "The bracket", says) and y is that chip's partial sum, FP32.
 *
 * - llama_rope: y[m][heads * head_dim] = x rotated, neighbouring pairs, at positions position + i. heads, head_dim,
 *   rope_base.
 *
 * - llama_attention: x[m][(heads + 2 kv_heads) * head_dim] = q | k | v before rotation; appends keys and values to
 *   layer 0 of kv_offset, y[m][heads * head_dim] = causal attention over positions 0 .. position + i.
 *
 * - llama_swiglu: y[m][ffn] = silu(x[.][0 .. ffn)) * x[.][ffn .. 2 ffn).
 *
 * - llama_residual: y[m][hidden] = x + FP32 [m][hidden] at matrix_offset of slice 0.
 *
 * - llama_sample: x[vocab] logits; jal_llama_result at result_offset. temperature, top_k, top_p, seed. */
typedef struct jal_llama_part {
  uint32_t x_offset; /* slice 0 */
  uint32_t y_offset; /* slice 0 */
  uint32_t matrix_offset;
  uint32_t rows, k;     /* of the matrix */
  uint32_t panels;      /* gemm: 0 or 8 for a whole K; 8 / n for the share of one of n chips */
  uint32_t reserved[2]; /* zero */
} jal_llama_part;
JAL_ABI_SIZE(jal_llama_part, 32);

typedef struct jal_llama_result {
  uint32_t token;
  float logit;       /* of the chosen token */
  uint32_t position; /* of the token that was chosen: position + m */
  uint32_t reserved[13];
} jal_llama_result;
JAL_ABI_SIZE(jal_llama_result, 64);

/* Units of one layer that a slice must hold for a context of that many tokens. */
static inline uint32_t jal_llama_kv_slots(uint32_t context, uint32_t kv_heads, uint32_t cores) {
  const uint32_t pages = (context + JAL_LLAMA_PAGE_TOKENS - 1) / JAL_LLAMA_PAGE_TOKENS;
  return (pages * kv_heads + cores - 1) / cores;
}
/* Bytes of one unit: keys and values of one page of one head. */
static inline uint64_t jal_llama_unit_bytes(uint32_t head_dim) { return 2ull * JAL_LLAMA_PAGE_TOKENS * head_dim * 2; }

#endif
