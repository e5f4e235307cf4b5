// The layers and the head of a step. See step.hpp.
#pragma once
#include "firmware/ops/llama/attention.hpp"
#include "firmware/ops/llama/sample.hpp"
#include "firmware/ops/llama/step.hpp"

namespace jal::ops::llama {

/// Norm weights are read once by rank 0 and broadcast, as many layers at a time as fit here.
inline constexpr uint32_t kNormBlockBytes = 192 * 1024;
/// The head's rows are streamed through L1 in tiles of about this size.
inline constexpr uint32_t kHeadTileBytes = 128 * 1024;

/// Norm vectors [first, first + count) of the norms table, equal on every core.
inline void load_norms(Step& s, Tile<float> norms, uint32_t first, uint32_t count) {
  Core& core = s.core;
  const Tile<float> part = norms.part(0, count * s.args.hidden);
  if (core.rank() != 0) {
    core.wait(core.broadcast(s.all, 0, part, Tile<float>()));
    return;
  }
  const Tile<float> source = core.alloc<float>(count * s.args.hidden);
  const Ev loaded = core.load(source, core.local(s.args.norms_offset + first * s.args.hidden * 4ull));
  core.wait(core.broadcast(s.all, 0, part, source, After(loaded)));
  core.release(source);
}

inline LayerWeights alloc_layer(Step& s) {
  const uint32_t dtype = s.args.weight_dtype;
  LayerWeights w;
  w.qkv = alloc_weights(s, dtype, s.qkv_rows, s.args.hidden);
  w.o = alloc_weights(s, dtype, s.hidden_rows, s.q_width);
  w.gate_up = alloc_weights(s, dtype, s.both_rows, s.args.hidden);
  w.down = alloc_weights(s, dtype, s.hidden_rows, s.args.ffn);
  return w;
}
/// What a layer reads first, when `free` has come; nothing for the layer behind the last one.
inline void load_before_down(Step& s, LayerWeights& w, uint32_t layer, Ev free) {
  if (layer == s.args.layers) return;
  const jal_llama_layer& at = s.args.layer[layer];
  load_weights(s, w.qkv, at.qkv_offset, free);
  load_weights(s, w.o, at.o_offset, free);
  load_weights(s, w.gate_up, at.gate_up_offset, free);
}
inline void load_down(Step& s, LayerWeights& w, uint32_t layer, Ev free) {
  if (layer != s.args.layers) load_weights(s, w.down, s.args.layer[layer].down_offset, free);
}

/// shard += y, which comes with `ready`; x = gather of the shards.
inline void add_residual(Step& s, Tile<float> y, Ev ready) {
  if (s.shard.size() > 0) ready = s.core.add(s.shard, s.shard, y, After(ready));
  s.core.wait(s.core.allgather(s.all, s.x, s.shard, s.m, After(ready)));
}

/// Tiles that every layer uses again: what a layer would allocate and release costs 1 % of a decode step on the
/// emulator.
struct Scratch {
  Tile<float> normed;  // [m][hidden]
  Bytes operand;       // of `normed`
  Tile<float> qkv, y;  // [m][this core's rows]
  Tile<float> both;    // [m][2][ffn rows], gate and up
  Tile<float> ffn;     // [m][ffn rows]
};
inline Bytes alloc_operand(Step& s, uint32_t dtype, uint32_t k, uint32_t m) {
  return s.core.alloc<uint8_t>(s.core.operand_bytes(activation_of(dtype), k, m));
}
inline Scratch alloc_scratch(Step& s) {
  Core& core = s.core;
  Scratch t;
  t.normed = core.alloc<float>(s.m * s.args.hidden);
  t.operand = alloc_operand(s, s.args.weight_dtype, s.args.hidden, s.m);
  t.qkv = core.alloc<float>(s.m * s.qkv_rows.count);
  t.y = core.alloc<float>(s.m * s.hidden_rows.count);
  t.both = core.alloc<float>(s.m * s.both_rows.count);
  t.ffn = core.alloc<float>(s.m * s.ffn_rows.count);
  return t;
}

/// Normalised x as an operand.
inline Ev norm_operand(Step& s, Tile<float> weight, uint32_t dtype, Tile<float> x, uint32_t m, Tile<float> normed,
                       Bytes operand) {
  const Ev ready = s.core.rmsnorm(normed, x, weight, s.args.norm_epsilon, m);
  return s.core.prepare(operand, normed, activation_of(dtype), s.args.hidden, m, s.args.hidden, After(ready));
}

/// `w` holds this layer's weights, and the next one's afterwards; loads may still be under way.
inline void run_layer(Step& s, uint32_t layer, LayerWeights& w, const Scratch& t, Tile<float> attention_norm,
                      Tile<float> ffn_norm) {
  Core& core = s.core;
  const uint32_t dtype = s.args.weight_dtype;
  const uint32_t hidden = s.args.hidden;
  // Attention.
  Ev ready = norm_operand(s, attention_norm, dtype, s.x, s.m, t.normed, t.operand);
  Ev done = project(s, t.qkv, w.qkv, dtype, s.qkv_rows, hidden, t.operand, ready);
  const Tile<float> qkv = core.alloc<float>(s.m * s.qkv_width);
  core.wait(core.allgather(s.all, qkv, t.qkv, s.m, After(done)));
  const Tile<float> mixed = core.alloc<float>(s.m * s.q_width);
  attend(s, layer, qkv, mixed);
  const Bytes mixed_operand = prepare(s, mixed, dtype, s.q_width, s.m, &ready);
  add_residual(s, t.y, project(s, t.y, w.o, dtype, s.hidden_rows, s.q_width, mixed_operand, ready));
  core.release(qkv);
  // Feed-forward.
  ready = norm_operand(s, ffn_norm, dtype, s.x, s.m, t.normed, t.operand);
  done = project(s, t.both, w.gate_up, dtype, s.both_rows, hidden, t.operand, ready);
  load_before_down(s, w, layer + 1, done);
  if (s.ffn_rows.count > 0) {
    const uint32_t f = s.ffn_rows.block;
    jal_vec_op op = {};
    op.fn = JAL_VEC_SWIGLU;
    op.n = s.ffn_rows.count;
    op.rows = s.m;
    op.a_stride = op.b_stride = 2 * f;
    op.out_stride = s.ffn_rows.count;
    op.a = t.both.raw();
    op.b = t.both.part(f, t.both.size() - f).raw();
    op.out = t.ffn.raw();
    done = core.vec(op, After(done));
  }
  const Tile<float> h = core.alloc<float>(s.m * s.args.ffn);
  core.wait(core.allgather(s.all, h, t.ffn, s.m, After(done)));
  const Bytes h_operand = prepare(s, h, dtype, s.args.ffn, s.m, &ready);
  done = project(s, t.y, w.down, dtype, s.hidden_rows, s.args.ffn, h_operand, ready);
  load_down(s, w, layer + 1, done);
  add_residual(s, t.y, done);
  core.release(h);
}

/// logits[m][rows of this core] of x rows [first, first + m).
inline void head(Step& s, Tile<float> norm, uint32_t first, uint32_t m, Tile<float> logits) {
  Core& core = s.core;
  const uint32_t hidden = s.args.hidden;
  const uint32_t rows = s.vocab_rows.count;
  const Tile<float> x = s.x.part(first * hidden, m * hidden);
  const Tile<float> normed = core.alloc<float>(m * hidden);
  const Bytes operand = alloc_operand(s, JAL_DTYPE_BF16, hidden, m);
  const Ev ready = norm_operand(s, norm, JAL_DTYPE_BF16, x, m, normed, operand);
  const uint32_t row_bytes = hidden * 2;
  uint32_t step = kHeadTileBytes / row_bytes;
  if (step == 0) step = 1;
  for (uint32_t row = 0; row < rows; row += step) {
    const uint32_t n = rows - row < step ? rows - row : step;
    const Bytes tile = core.alloc<uint8_t>(n * row_bytes);
    const Ev loaded = core.load(tile, core.local(s.args.head_offset + static_cast<uint64_t>(row) * row_bytes));
    jal_gemm_op op = {};
    op.weights = tile.raw();
    op.operand = operand.raw();
    op.y = logits.part(row, (m - 1) * rows + n).raw();
    op.weight_dtype = JAL_DTYPE_BF16;
    op.activation_dtype = JAL_DTYPE_F32;
    op.rows = n;
    op.k = hidden;
    op.m = m;
    op.y_stride = rows;
    op.panels = 8;
    core.wait(core.gemm(op, After(loaded, ready)));
    core.release(tile);
  }
}

/// Chooses the next token from this core's logits of the last one; rank 0 stores the result.
inline void sample(Step& s, Tile<float> last) {
  Core& core = s.core;
  const Best best = s.args.temperature > 0 ? draw(s, last) : most_likely(s, last);
  if (core.rank() != 0) return;
  const Tile<jal_llama_result> result = core.alloc<jal_llama_result>(1);
  jal_llama_result& out = core.write_view(result)[0];
  out = {};
  out.token = best.index;
  out.logit = best.value;
  out.position = s.args.position + s.m;
  core.wait(core.store(core.local(s.args.result_offset), result));
}

inline void finish(Step& s, Tile<float> norm) {
  Core& core = s.core;
  const bool is_all = (s.args.flags & JAL_LLAMA_LOGITS_ALL) != 0;
  const bool is_stored = is_all || (s.args.flags & JAL_LLAMA_LOGITS_LAST) != 0;
  const bool is_sampled = (s.args.flags & JAL_LLAMA_SAMPLE) != 0;
  if (!is_stored && !is_sampled) return;
  const uint32_t m = is_all ? s.m : 1;
  const uint32_t rows = s.vocab_rows.count;
  const Tile<float> logits = core.alloc<float>(m * rows);
  head(s, norm, s.m - m, m, logits);
  if (is_stored && rows > 0) {
    for (uint32_t i = 0; i < m; ++i) {
      core.wait(core.store(core.local(s.args.logits_offset + static_cast<uint64_t>(i) * s.vocab_rows.block * 4),
                           logits.part(i * rows, rows)));
    }
  }
  if (is_sampled) sample(s, logits.part((m - 1) * rows, rows));
}

inline void check_sampling(Core& core, const jal_llama_step& a) {
  JAL_KERNEL_ASSERT(core, a.temperature >= 0 &&
                              (a.temperature == 0 || (a.top_p > 0 && a.top_k >= 1 && a.top_k <= JAL_LLAMA_TOP_K_MAX)));
}
inline void check(Core& core, const jal_llama_step& a) {
  JAL_KERNEL_ASSERT(core, a.layers >= 1 && a.layers <= JAL_LLAMA_LAYERS_MAX);
  JAL_KERNEL_ASSERT(core, a.tokens <= JAL_LLAMA_CHUNK_MAX);
  JAL_KERNEL_ASSERT(core, a.hidden % 32 == 0 && a.hidden > 0 && a.ffn % 32 == 0 && a.ffn > 0);
  JAL_KERNEL_ASSERT(core, a.kv_heads > 0 && a.heads % a.kv_heads == 0 && a.heads > 0);
  JAL_KERNEL_ASSERT(core, a.head_dim % 2 == 0 && a.head_dim > 0 && a.head_dim <= 256 && a.vocab > 0);
  JAL_KERNEL_ASSERT(
      core, a.weight_dtype == JAL_DTYPE_BF16 || a.weight_dtype == JAL_DTYPE_MXFP8 || a.weight_dtype == JAL_DTYPE_MXFP4);
  JAL_KERNEL_ASSERT(core, a.kv_slots >= jal_llama_kv_slots(a.position + a.tokens, a.kv_heads, core.size()));
  check_sampling(core, a);
  JAL_KERNEL_ASSERT(core, core.size() == core.chip_cores);
  for (uint32_t i = 0; i < a.tokens; ++i) JAL_KERNEL_ASSERT(core, a.token[i] < a.vocab);
}

inline void run_step(Core& core, const jal_llama_step& args) {
  check(core, args);
  if (args.tokens == 0) return;
  Step s(core, args);
  const uint32_t hidden = args.hidden;
  const uint32_t norm_vectors = 2 * args.layers + 1;
  uint32_t block = kNormBlockBytes / (2 * hidden * 4);  // layers whose norms are held at a time
  if (block == 0) block = 1;
  if (block > args.layers) block = args.layers;
  const Tile<float> norms = core.alloc<float>((2 * block + 1) * hidden);
  make_angles(s);
  embed(s);
  s.shard = core.alloc<float>(s.m * s.hidden_rows.count);
  if (s.shard.size() > 0) {
    const Tile<float> own = s.x.part(s.hidden_rows.first, (s.m - 1) * hidden + s.hidden_rows.count);
    core.wait(copy_rows(s, s.shard, s.hidden_rows.count, own, hidden, s.hidden_rows.count, s.m));
  }
  const Bytes start = core.alloc<uint8_t>(0);
  LayerWeights weights = alloc_layer(s);
  const Scratch scratch = alloc_scratch(s);
  load_before_down(s, weights, 0, Ev{});
  load_down(s, weights, 0, Ev{});
  for (uint32_t layer = 0; layer < args.layers; ++layer) {
    const uint32_t at = layer % block;
    if (at == 0) {
      const uint32_t first = 2 * layer;
      const uint32_t left = norm_vectors - first;
      load_norms(s, norms, first, left < 2 * block + 1 ? left : 2 * block + 1);
    }
    run_layer(s, layer, weights, scratch, norms.part(2 * at * hidden, hidden),
              norms.part((2 * at + 1) * hidden, hidden));
  }
  core.release(start);  // the head needs the room
  // The last block's broadcast ended with the final norm.
  const uint32_t last = (args.layers - 1) % block;
  finish(s, norms.part((2 * last + 2) * hidden, hidden));
}

}  // namespace jal::ops::llama
