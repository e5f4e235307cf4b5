// One step of a Llama-architecture model on one core, as functions that the kernels of ops_llama.jko share.
//
// What it is not: a scheduler of requests; the host says which tokens and where. Every core of the chip runs the same
// code; what differs is the rows of each matrix that lie in its own slice, and the KV units it owns. Collectives carry
// activations, never weights or KV. Invariant: a value that several cores need is computed once and gathered, or
// computed by each from equal inputs in equal order, so the result has the same bits for any number of cores; softmax
// parts merge in the bracket over KV pages. Contract: jal/ops/llama.h. L1: the largest tiles are FP32 [m][max(hidden,
// ffn, qkv rows)] and their operands.
#pragma once
#include <jal/ops/llama.h>

#include <jal/kernel/core.hpp>

namespace jal::ops::llama {

using kernel::After;
using kernel::Bytes;
using kernel::Core;
using kernel::Ev;
using kernel::Group;
using kernel::Tile;

/// Rows of a dealt matrix on one core.
struct Rows {
  uint32_t first;
  uint32_t count;
  uint32_t block;  // rows of a full share
};

inline Rows dealt(uint32_t rows, const Core& core) {
  const uint32_t block = (rows + core.size() - 1) / core.size();
  const uint32_t first = core.rank() * block;
  const uint32_t left = first < rows ? rows - first : 0;
  return {first < rows ? first : rows, left < block ? left : block, block};
}

/// Activation format that goes with a weight format (docs/engine_numerics.md).
inline uint32_t activation_of(uint32_t weight_dtype) {
  return weight_dtype == JAL_DTYPE_BF16 ? JAL_DTYPE_F32 : JAL_DTYPE_BF16;
}

/// What the functions below share during one step.
struct Step {
  Core& core;
  const jal_llama_step& args;
  uint32_t m;
  Group all;
  Rows hidden_rows, qkv_rows, ffn_rows, vocab_rows;
  Rows both_rows;  // gate and up rows of a core as one tile, always full
  uint32_t q_width, kv_width, qkv_width, group_heads;
  Tile<float> angles;  // [m][head_dim]: cosines, then sines
  Tile<float> x;       // [m][hidden], the residual stream, equal on every core
  Tile<float> shard;   // [m][hidden_rows.count], this core's columns of it

  Step(Core& c, const jal_llama_step& a)
      : core(c),
        args(a),
        m(a.tokens),
        all(c.all()),
        hidden_rows(dealt(a.hidden, c)),
        qkv_rows(dealt((a.heads + 2 * a.kv_heads) * a.head_dim, c)),
        ffn_rows(dealt(a.ffn, c)),
        vocab_rows(dealt(a.vocab, c)),
        both_rows{0, 2 * ffn_rows.block, 2 * ffn_rows.block},
        q_width(a.heads * a.head_dim),
        kv_width(a.kv_heads * a.head_dim),
        qkv_width(q_width + 2 * kv_width),
        group_heads(a.kv_heads == 0 ? 0 : a.heads / a.kv_heads) {}
};

/// A weight matrix's rows in this core's slice, and the ticket of the load that brings a layer's. Every slice's tile
/// has a full share of rows; a core without rows of its own has no tile and loads nothing.
struct WeightTile {
  Bytes tile;
  Ev there;
};

inline WeightTile alloc_weights(Step& s, uint32_t dtype, Rows rows, uint32_t k) {
  if (rows.count == 0) return {};
  return {s.core.alloc<uint8_t>(static_cast<uint32_t>(s.core.weight_tile_bytes(dtype, rows.block, k))), Ev{}};
}
/// `free`: what read the tile last.
inline void load_weights(Step& s, WeightTile& weights, uint32_t offset, Ev free) {
  if (weights.tile.bytes() > 0) weights.there = s.core.load(weights.tile, s.core.local(offset), After(free));
}

/// Weight tiles of a layer. All layers use the same: a matrix of the next layer is loaded as soon as this layer's has
/// been multiplied, so that it is on its way during what needs no weights.
struct LayerWeights {
  WeightTile qkv, o, gate_up, down;
};

/// Operand of x[m][k], dense.
inline Bytes prepare(Step& s, Tile<float> x, uint32_t dtype, uint32_t k, uint32_t m, Ev* ev, After after = After()) {
  const uint32_t activation = activation_of(dtype);
  const Bytes operand = s.core.alloc<uint8_t>(s.core.operand_bytes(activation, k, m));
  *ev = s.core.prepare(operand, x, activation, k, m, k, after);
  return operand;
}

/// Rows of a strided matrix to another: rows x n elements.
inline Ev copy_rows(Step& s, Tile<float> out, uint32_t out_stride, Tile<float> in, uint32_t in_stride, uint32_t n,
                    uint32_t rows, After after = After()) {
  jal_vec_op op = {};
  op.fn = JAL_VEC_COPY;
  op.n = n;
  op.rows = rows;
  op.a_stride = in_stride;
  op.out_stride = out_stride;
  op.a = in.raw();
  op.out = out.raw();
  return s.core.vec(op, after);
}

/// y[m][rows.count] of this core's rows. No rows: nothing.
inline Ev project(Step& s, Tile<float> y, const WeightTile& weights, uint32_t dtype, Rows rows, uint32_t k,
                  Bytes operand, Ev operand_ev) {
  if (rows.count == 0) return Ev{};
  const bool is_full = rows.count == rows.block;
  // The last share's tile ends in rows of zeros: they are multiplied too, and left out of y.
  const Tile<float> out = is_full ? y : s.core.alloc<float>(s.m * rows.block);
  jal_gemm_op op = {};
  op.weights = weights.tile.raw();
  op.operand = operand.raw();
  op.y = out.raw();
  op.weight_dtype = dtype;
  op.activation_dtype = activation_of(dtype);
  op.rows = rows.block;
  op.k = k;
  op.m = s.m;
  op.y_stride = rows.block;
  op.panels = 8;
  const Ev multiplied = s.core.gemm(op, After(weights.there, operand_ev));
  if (is_full) return multiplied;
  const Ev copied = copy_rows(s, y, rows.count, out, rows.block, rows.count, s.m, After(multiplied));
  s.core.wait(copied);
  s.core.release(out);
  return copied;
}

/// x = the embedding rows of the step's tokens, on every core. The owner of a row sends it to the core that holds the
/// token's place in the gather; for one token it broadcasts.
inline void embed(Step& s) {
  Core& core = s.core;
  const uint32_t hidden = s.args.hidden;
  const uint32_t block = s.vocab_rows.block;
  const uint32_t row_bytes = hidden * 2;
  const auto row_address = [&](uint32_t token) {
    return core.local(s.args.embedding_offset + static_cast<uint64_t>(token % block) * row_bytes);
  };
  s.x = core.alloc<float>(s.m * hidden);
  const uint32_t per_core = (s.m + core.size() - 1) / core.size();
  const uint32_t first = core.rank() * per_core < s.m ? core.rank() * per_core : s.m;
  const uint32_t mine = s.m - first < per_core ? s.m - first : per_core;
  const Tile<float> held = core.alloc<float>(mine * hidden);
  for (uint32_t i = 0; i < s.m; ++i) {
    const uint32_t owner = s.args.token[i] / block;
    const uint32_t holder = i / per_core;
    if (owner != core.rank() || holder == owner) continue;
    const Tile<uint16_t> row = core.alloc<uint16_t>(hidden);
    const Ev loaded = core.load(row, row_address(s.args.token[i]));
    core.wait(core.send(holder, row, After(loaded)));
    core.release(row);
  }
  for (uint32_t j = 0; j < mine; ++j) {
    const uint32_t token = s.args.token[first + j];
    const uint32_t owner = token / block;
    const Tile<uint16_t> row = core.alloc<uint16_t>(hidden);
    const Ev there = owner == core.rank() ? core.load(row, row_address(token)) : core.recv(owner, row);
    core.wait(core.f32_from_bf16(held.part(j * hidden, hidden), row, After(there)));
    core.release(row);
  }
  core.wait(core.allgather(s.all, s.x, held));
}

/// cos and sin of every position of the step, each computed by one core.
inline void make_angles(Step& s) {
  Core& core = s.core;
  const uint32_t d = s.args.head_dim;
  s.angles = core.alloc<float>(s.m * d);
  const uint32_t per_core = (s.m + core.size() - 1) / core.size();
  const uint32_t first = core.rank() * per_core < s.m ? core.rank() * per_core : s.m;
  const uint32_t mine = s.m - first < per_core ? s.m - first : per_core;
  const Tile<float> part = core.alloc<float>(mine * d);
  for (uint32_t j = 0; j < mine; ++j) {
    jal_vec_op op = {};
    op.fn = JAL_VEC_ROPE_TABLE;
    op.n = d;
    op.u0 = s.args.position + first + j;
    op.s0 = s.args.rope_base;
    op.out = part.part(j * d, d).raw();
    core.wait(core.vec(op));
  }
  core.wait(core.allgather(s.all, s.angles, part));
}

/// out[rows][head_dim] = rotate(in rows at in_stride); row r belongs to token first + r.
inline Ev rotate(Step& s, Tile<float> out, uint32_t out_stride, Tile<float> in, uint32_t in_stride, uint32_t first,
                 uint32_t rows) {
  const uint32_t d = s.args.head_dim;
  jal_vec_op op = {};
  op.fn = JAL_VEC_ROPE_PAIRS;
  op.n = d;
  op.rows = rows;
  op.a_stride = in_stride;
  op.b_stride = op.c_stride = d;
  op.out_stride = out_stride;
  op.a = in.raw();
  op.b = s.angles.part(first * d, rows * d - d / 2).raw();
  op.c = s.angles.part(first * d + d / 2, rows * d - d / 2).raw();
  op.out = out.raw();
  return s.core.vec(op);
}

}  // namespace jal::ops::llama
