// The operations of a step one by one, each between FP32 vectors on slice 0. See jal/ops/llama.h.
//
// What it is not: fast. Each broadcasts its input and gathers its output; llama_step keeps both where they are used.
#pragma once
#include "firmware/ops/llama/model.hpp"

namespace jal::ops::llama {

/// FP32 values at an offset of slice 0, equal on every core.
inline Tile<float> broadcast_in(Step& s, uint32_t offset, uint32_t count) {
  Core& core = s.core;
  const Tile<float> all = core.alloc<float>(count);
  if (core.rank() != 0) {
    core.wait(core.broadcast(s.all, 0, all, Tile<float>()));
    return all;
  }
  const Tile<float> source = core.alloc<float>(count);
  const Ev loaded = core.load(source, core.local(offset));
  core.wait(core.broadcast(s.all, 0, all, source, After(loaded)));
  core.release(source);
  return all;
}

/// Rank 0 stores what every core holds.
inline void store_out(Step& s, uint32_t offset, Tile<float> y) {
  if (s.core.rank() == 0 && y.size() > 0) s.core.wait(s.core.store(s.core.local(offset), y));
}

inline void check_part(Core& core, const jal_llama_step& a) {
  JAL_KERNEL_ASSERT(core, a.tokens <= JAL_LLAMA_CHUNK_MAX);
  JAL_KERNEL_ASSERT(core, core.size() == core.chip_cores);
}

inline void part_embed(Core& core, const jal_llama_step& a, const jal_llama_part& p) {
  check_part(core, a);
  JAL_KERNEL_ASSERT(core, a.hidden > 0 && a.hidden % 32 == 0 && a.vocab > 0);
  for (uint32_t i = 0; i < a.tokens; ++i) JAL_KERNEL_ASSERT(core, a.token[i] < a.vocab);
  if (a.tokens == 0) return;
  Step s(core, a);
  embed(s);
  store_out(s, p.y_offset, s.x);
}

inline void part_rmsnorm(Core& core, const jal_llama_step& a, const jal_llama_part& p) {
  check_part(core, a);
  JAL_KERNEL_ASSERT(core, a.hidden > 0);
  if (a.tokens == 0) return;
  Step s(core, a);
  const Tile<float> x = broadcast_in(s, p.x_offset, s.m * a.hidden);
  const Tile<float> weight = broadcast_in(s, a.norms_offset, a.hidden);
  const Tile<float> y = core.alloc<float>(s.m * a.hidden);
  core.wait(core.rmsnorm(y, x, weight, a.norm_epsilon, s.m));
  store_out(s, p.y_offset, y);
}

inline void part_gemm(Core& core, const jal_llama_step& a, const jal_llama_part& p, uint32_t dtype) {
  check_part(core, a);
  JAL_KERNEL_ASSERT(core, p.k > 0);
  if (a.tokens == 0 || p.rows == 0) return;
  Step s(core, a);
  const Rows rows = dealt(p.rows, core);
  const Tile<float> y = core.alloc<float>(s.m * p.rows);
  const Tile<float> x = broadcast_in(s, p.x_offset, s.m * p.k);
  Ev weights_ready, operand_ready;
  const Bytes weights = load_weights(s, p.matrix_offset, dtype, rows, p.k, &weights_ready);
  const Bytes operand = prepare(s, x, dtype, p.k, s.m, &operand_ready);
  const Tile<float> own = core.alloc<float>(s.m * rows.count);
  project(s, own, weights, weights_ready, dtype, rows, p.k, operand, operand_ready);
  core.wait(core.allgather(s.all, y, own, s.m));
  store_out(s, p.y_offset, y);
}

inline void part_rope(Core& core, const jal_llama_step& a, const jal_llama_part& p) {
  check_part(core, a);
  JAL_KERNEL_ASSERT(core, a.head_dim % 2 == 0 && a.head_dim > 0 && a.heads > 0);
  if (a.tokens == 0) return;
  Step s(core, a);
  make_angles(s);
  const Tile<float> x = broadcast_in(s, p.x_offset, s.m * s.q_width);
  const Tile<float> y = core.alloc<float>(s.m * s.q_width);
  for (uint32_t h = 0; h < a.heads; ++h) {
    const uint32_t elements = (s.m - 1) * s.q_width + a.head_dim;
    core.wait(
        rotate(s, y.part(h * a.head_dim, elements), s.q_width, x.part(h * a.head_dim, elements), s.q_width, 0, s.m));
  }
  store_out(s, p.y_offset, y);
}

inline void part_attention(Core& core, const jal_llama_step& a, const jal_llama_part& p) {
  check_part(core, a);
  JAL_KERNEL_ASSERT(core, a.kv_heads > 0 && a.heads > 0 && a.heads % a.kv_heads == 0);
  JAL_KERNEL_ASSERT(core, a.head_dim % 2 == 0 && a.head_dim > 0 && a.head_dim <= 256);
  JAL_KERNEL_ASSERT(core, a.kv_slots >= jal_llama_kv_slots(a.position + a.tokens, a.kv_heads, core.size()));
  if (a.tokens == 0) return;
  Step s(core, a);
  make_angles(s);
  const Tile<float> qkv = broadcast_in(s, p.x_offset, s.m * s.qkv_width);
  const Tile<float> y = core.alloc<float>(s.m * s.q_width);
  attend(s, 0, qkv, y);
  store_out(s, p.y_offset, y);
}

inline void part_swiglu(Core& core, const jal_llama_step& a, const jal_llama_part& p) {
  check_part(core, a);
  if (a.tokens == 0 || a.ffn == 0) return;
  Step s(core, a);
  const Tile<float> x = broadcast_in(s, p.x_offset, s.m * 2 * a.ffn);
  const Tile<float> y = core.alloc<float>(s.m * a.ffn);
  jal_vec_op op = {};
  op.fn = JAL_VEC_SWIGLU;
  op.n = a.ffn;
  op.rows = s.m;
  op.a_stride = op.b_stride = 2 * a.ffn;
  op.out_stride = a.ffn;
  op.a = x.raw();
  op.b = x.part(a.ffn, x.size() - a.ffn).raw();
  op.out = y.raw();
  core.wait(core.vec(op));
  store_out(s, p.y_offset, y);
}

inline void part_residual(Core& core, const jal_llama_step& a, const jal_llama_part& p) {
  check_part(core, a);
  if (a.tokens == 0 || a.hidden == 0) return;
  Step s(core, a);
  const Tile<float> x = broadcast_in(s, p.x_offset, s.m * a.hidden);
  const Tile<float> other = broadcast_in(s, p.matrix_offset, s.m * a.hidden);
  const Tile<float> y = core.alloc<float>(s.m * a.hidden);
  core.wait(core.add(y, x, other));
  store_out(s, p.y_offset, y);
}

inline void part_sample(Core& core, const jal_llama_step& a, const jal_llama_part& p) {
  check_part(core, a);
  JAL_KERNEL_ASSERT(core, a.vocab > 0);
  check_sampling(core, a);
  Step s(core, a);
  const Tile<float> x = broadcast_in(s, p.x_offset, a.vocab);
  sample(s, x.part(s.vocab_rows.first, s.vocab_rows.count));
}

}  // namespace jal::ops::llama
