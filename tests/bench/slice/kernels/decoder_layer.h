/* Arguments of the two kernels of decoder_layer.jko: one decoder layer of a mixture-of-experts model, the share of one
 * chip among several (tensor parallel), for one token. Offsets count in every slice and are multiples of 64. */
#ifndef JAL_BENCH_DECODER_LAYER_H
#define JAL_BENCH_DECODER_LAYER_H

#include <stdint.h>

/* Where the time of a profiled kernel went, as its core 0 saw it; the parts add up to the kernel's whole time. */
typedef struct jal_decoder_profile {
  uint64_t hbm_ps;        /* waited for loads and stores */
  uint64_t engine_ps;     /* waited for matrix and vector engines, issue of verbs included */
  uint64_t collective_ps; /* in collectives: the network, and waiting for slower cores */
} jal_decoder_profile;

/* C = cores of the chip; a core holds hidden / C elements of the residual stream, FP32. */
typedef struct jal_decoder_layer {
  uint64_t x_offset;    /* residual stream, without the sum that is still to be added */
  uint64_t sum_offset;  /* in: the former kernel's sum over all chips; out: this chip's part of the next one */
  uint64_t norm_offset; /* attention: FP32 [hidden]; every slice holds a copy */
  uint64_t ffn_norm_offset;
  uint64_t qkv_offset;   /* BF16 tile: this core's rows of [q heads | k head | v head] by hidden */
  uint64_t o_offset;     /* BF16 tile: hidden / C rows by heads * head_dim */
  uint64_t sinks_offset; /* slice of core 0: FP32 [heads] */
  uint64_t keys_offset;  /* BF16 [kv_tokens + 1][head_dim]: cached tokens, room for the new one on the last core */
  uint64_t values_offset;
  uint64_t router_offset;  /* BF16 tile: experts / C rows by hidden */
  uint64_t experts_offset; /* per stored expert an MXFP4 tile of 2 x expert_rows by hidden, then one of hidden / C by
                              intermediate */
  uint64_t profile_offset; /* 0: none; else jal_decoder_profile, in core 0's slice */
  uint32_t hidden;         /* multiple of C */
  uint32_t heads;          /* query heads of this chip; they share its one KV head */
  uint32_t head_dim;
  uint32_t kv_tokens;    /* cached tokens in each core's slice */
  uint32_t experts;      /* the router's choices; multiple of C */
  uint32_t stored;       /* experts whose weights are there; expert e uses those of e modulo stored */
  uint32_t active;       /* experts of a token, at most 8 */
  uint32_t intermediate; /* this chip's share of an expert's inner width */
  uint32_t expert_rows;  /* of it, a core's share: intermediate / C rounded up; the last cores have fewer or none */
  uint32_t position;
  float norm_epsilon;
  float rope_base;
} jal_decoder_layer;

#endif
