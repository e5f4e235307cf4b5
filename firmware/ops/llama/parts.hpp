// The operations of a step one by one, each between FP32 vectors on slice 0. See jal/ops/llama.h.
//
// What it is not: fast. Each broadcasts its input and gathers its output; llama_step keeps both where they are used.
// Tokens, and a matrix's rows, go through L1 in pieces that fit, so that what must fit is one token and one row. No
// piece's size changes a bit: every token, and every row of a matrix, is computed alone.
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

inline void check_part(Core& core, const jal_llama_step& a, const jal_llama_part& p) {
  JAL_KERNEL_ASSERT(core, a.tokens <= JAL_LLAMA_CHUNK_MAX);
  JAL_KERNEL_ASSERT(core, core.size() == core.chip_cores);
  JAL_KERNEL_ASSERT(core, p.reserved[0] == 0 && p.reserved[1] == 0 && a.reserved == 0);
}

/// L1 that pieces may fill. The rest is for what is small: guards behind tiles, records, tables.
inline uint64_t l1_room(const Core& core) { return core.l1_bytes - core.l1_bytes / 16; }

/// body(Step, x_offset, y_offset) for pieces of at most `tokens` of the step's tokens, each a step of its own that
/// continues the one before. x_width and y_width: floats of one token in and out.
template <typename Body>
void in_pieces_of(uint32_t tokens, Core& core, const jal_llama_step& a, const jal_llama_part& p, uint32_t x_width,
                  uint32_t y_width, Body body) {
  for (uint32_t first = 0; first < a.tokens; first += tokens) {
    jal_llama_step piece = a;
    piece.tokens = a.tokens - first < tokens ? a.tokens - first : tokens;
    piece.position = a.position + first;
    for (uint32_t i = 0; i < piece.tokens; ++i) piece.token[i] = a.token[first + i];
    const Bytes start = core.alloc<uint8_t>(0);
    Step s(core, piece);
    body(s, p.x_offset + first * x_width * 4, p.y_offset + first * y_width * 4);
    core.release(start);
  }
}
/// Floats of one token that a part reads, writes, and holds in L1 at once; and those that it holds whatever the tokens.
struct Width {
  uint32_t x, y;
  uint64_t held, fixed;
};
template <typename Body>
void in_pieces(Core& core, const jal_llama_step& a, const jal_llama_part& p, const Width& width, Body body) {
  const uint64_t room = l1_room(core) / 4;
  const uint64_t fit = width.fixed < room ? (room - width.fixed) / width.held : 0;
  const uint32_t tokens = fit == 0 ? 1 : fit < JAL_LLAMA_CHUNK_MAX ? static_cast<uint32_t>(fit) : JAL_LLAMA_CHUNK_MAX;
  in_pieces_of(tokens, core, a, p, width.x, width.y, body);
}

inline void part_embed(Core& core, const jal_llama_step& a, const jal_llama_part& p) {
  check_part(core, a, p);
  JAL_KERNEL_ASSERT(core, a.hidden > 0 && a.hidden % 32 == 0 && a.vocab > 0);
  for (uint32_t i = 0; i < a.tokens; ++i) JAL_KERNEL_ASSERT(core, a.token[i] < a.vocab);
  const uint64_t hidden = a.hidden;
  in_pieces(core, a, p, {0, a.hidden, 2 * hidden, 2 * hidden}, [](Step& s, uint32_t, uint32_t y_offset) {
    embed(s);
    store_out(s, y_offset, s.x);
  });
}

inline void part_rmsnorm(Core& core, const jal_llama_step& a, const jal_llama_part& p) {
  check_part(core, a, p);
  JAL_KERNEL_ASSERT(core, a.hidden > 0);
  if (a.tokens == 0) return;
  Step whole(core, a);
  const Tile<float> weight = broadcast_in(whole, a.norms_offset, a.hidden);
  const uint64_t hidden = a.hidden;
  in_pieces(core, a, p, {a.hidden, a.hidden, 2 * hidden, hidden}, [&](Step& s, uint32_t x_offset, uint32_t y_offset) {
    const Tile<float> x = broadcast_in(s, x_offset, s.m * s.args.hidden);
    const Tile<float> y = core.alloc<float>(x.size());
    core.wait(core.rmsnorm(y, x, weight, s.args.norm_epsilon, s.m));
    store_out(s, y_offset, y);
  });
}

/// Rows [first, first + count) of this core's weight tile as a tile of their own. `share` is the rows of the whole.
inline Bytes load_rows(Step& s, uint32_t offset, uint32_t dtype, uint32_t share, uint32_t first, uint32_t count,
                       uint32_t k, Ev* ev) {
  Core& core = s.core;
  const auto aligned = [](uint64_t bytes) { return (bytes + 63) / 64 * 64; };
  const uint32_t bytes = static_cast<uint32_t>(core.weight_tile_bytes(dtype, count, k));
  const uint64_t from = core.local(offset);
  const Bytes tile = core.alloc<uint8_t>(bytes);
  if (count == share) {
    *ev = core.load(tile, from);
    return tile;
  }
  const uint32_t blocks = (k + 31) / 32;
  const uint32_t row_bytes = blocks * (dtype == JAL_DTYPE_BF16 ? 64 : dtype == JAL_DTYPE_MXFP8 ? 32 : 16);
  const Bytes codes = tile.part(0, count * row_bytes);
  if (dtype == JAL_DTYPE_BF16) {
    *ev = core.load(codes, from + static_cast<uint64_t>(first) * row_bytes);
    return tile;
  }
  // A tile's scales stand behind all its codes; what lies between the two, and behind the scales, is zero.
  const uint32_t scales_at = static_cast<uint32_t>(aligned(codes.bytes()));
  const uint64_t scales_from = from + aligned(static_cast<uint64_t>(share) * row_bytes);
  jal_vec_op zero = {};
  zero.fn = JAL_VEC_FILL;
  zero.n = (bytes - codes.bytes()) / 4;
  zero.out = tile.part(codes.bytes(), bytes - codes.bytes()).raw();
  const Ev zeroed = core.vec(zero);
  (void)core.load(codes, from + static_cast<uint64_t>(first) * row_bytes, After(zeroed));
  // The DMA engine works in order: this load's ticket stands for both.
  *ev = core.load(tile.part(scales_at, count * blocks), scales_from + static_cast<uint64_t>(first) * blocks,
                  After(zeroed));
  return tile;
}

/// y[m][rows], columns [first, first + count) of every core's share, stored to slice 0 from what a gather left: those
/// columns of all cores side by side.
inline void store_columns(Step& s, uint32_t y_offset, Tile<float> gathered, uint32_t rows, uint32_t share,
                          uint32_t first, uint32_t count) {
  Core& core = s.core;
  if (core.rank() != 0) return;
  if (count == share) return store_out(s, y_offset, gathered);
  uint32_t at = 0;
  for (uint32_t t = 0; t < s.m; ++t) {
    for (uint64_t row = first; row < rows; row += share) {
      const uint32_t n = rows - row < count ? static_cast<uint32_t>(rows - row) : count;
      core.wait(core.store(core.local(y_offset + (static_cast<uint64_t>(t) * rows + row) * 4), gathered.part(at, n)));
      at += n;
    }
  }
}

inline void part_gemm(Core& core, const jal_llama_step& a, const jal_llama_part& p, uint32_t dtype) {
  check_part(core, a, p);
  JAL_KERNEL_ASSERT(core, p.k > 0);
  JAL_KERNEL_ASSERT(core, p.panels == 0 || p.panels == 1 || p.panels == 2 || p.panels == 4 || p.panels == 8);
  if (a.tokens == 0 || p.rows == 0) return;
  const uint32_t activation = activation_of(dtype);
  const uint32_t k = p.k;
  const Rows share = dealt(p.rows, core);
  const uint64_t room = l1_room(core);
  // Half of L1 for the operand and what it is made of, the other half for weight rows and their results.
  uint32_t tokens = a.tokens;
  while (tokens > 1 && core.operand_bytes(activation, k, tokens) + 8ull * tokens * k > room / 2)
    tokens = (tokens + 1) / 2;
  const uint64_t left = room - room / 2;
  const auto rows_bytes = [&](uint64_t n) {
    return core.weight_tile_bytes(dtype, static_cast<uint32_t>(n), k) + 4 * n * tokens * (core.size() + 1ull);
  };
  uint32_t step = share.block;
  while (step > 1 && rows_bytes(step) > left) step = (step + 1) / 2;
  in_pieces_of(tokens, core, a, p, k, p.rows, [&](Step& s, uint32_t x_offset, uint32_t y_offset) {
    Ev ready;
    const Bytes operand = core.alloc<uint8_t>(core.operand_bytes(activation, k, s.m));
    const Tile<float> x = broadcast_in(s, x_offset, s.m * k);
    ready = core.prepare(operand, x, activation, k, s.m, k);
    core.wait(ready);
    core.release(x);
    for (uint32_t first = 0; first < share.block; first += step) {
      const uint32_t n = share.block - first < step ? share.block - first : step;
      const uint32_t mine = share.count <= first ? 0 : share.count - first < n ? share.count - first : n;
      uint32_t all = 0;
      for (uint64_t row = first; row < p.rows; row += share.block)
        all += p.rows - row < n ? static_cast<uint32_t>(p.rows - row) : n;
      const Tile<float> gathered = core.alloc<float>(s.m * all);
      const Tile<float> own = core.alloc<float>(s.m * mine);
      if (mine > 0) {
        Ev loaded;
        const Bytes weights = load_rows(s, p.matrix_offset, dtype, share.block, first, mine, k, &loaded);
        jal_gemm_op op = {};
        op.weights = weights.raw();
        op.operand = operand.raw();
        op.y = own.raw();
        op.weight_dtype = dtype;
        op.activation_dtype = activation;
        op.rows = mine;
        op.k = k;
        op.m = s.m;
        op.y_stride = mine;
        op.panels = p.panels == 0 ? 8 : p.panels;
        core.wait(core.gemm(op, After(loaded, ready)));
      }
      core.wait(core.allgather(s.all, gathered, own, s.m));
      store_columns(s, y_offset, gathered, p.rows, share.block, first, n);
      core.release(gathered);
    }
  });
}

inline void part_rope(Core& core, const jal_llama_step& a, const jal_llama_part& p) {
  check_part(core, a, p);
  JAL_KERNEL_ASSERT(core, a.head_dim % 2 == 0 && a.head_dim > 0 && a.heads > 0);
  const uint32_t width = a.heads * a.head_dim;
  in_pieces(core, a, p, {width, width, 2ull * width + 2 * a.head_dim, 0},
            [&](Step& s, uint32_t x_offset, uint32_t y_offset) {
              make_angles(s);
              const Tile<float> x = broadcast_in(s, x_offset, s.m * width);
              const Tile<float> y = core.alloc<float>(x.size());
              for (uint32_t h = 0; h < a.heads; ++h) {
                const uint32_t column = h * a.head_dim, elements = (s.m - 1) * width + a.head_dim;
                core.wait(rotate(s, y.part(column, elements), width, x.part(column, elements), width, 0, s.m));
              }
              store_out(s, y_offset, y);
            });
}

inline void part_attention(Core& core, const jal_llama_step& a, const jal_llama_part& p) {
  check_part(core, a, p);
  JAL_KERNEL_ASSERT(core, a.kv_heads > 0 && a.heads > 0 && a.heads % a.kv_heads == 0);
  JAL_KERNEL_ASSERT(core, a.head_dim % 2 == 0 && a.head_dim > 0 && a.head_dim <= 256);
  JAL_KERNEL_ASSERT(core, a.kv_slots >= jal_llama_kv_slots(a.position + a.tokens, a.kv_heads, core.size()));
  const uint64_t d = a.head_dim;
  const uint64_t q = a.heads * d, qkv = q + 2 * a.kv_heads * d;
  const uint64_t group = a.heads / a.kv_heads;
  const uint64_t units = jal_llama_kv_slots(a.position + a.tokens, a.kv_heads, core.size());
  // Input, output, angles, the queries of one KV head, a softmax part for every page here, and the merged result; a
  // page in BF16, or as it is appended.
  const Width width = {static_cast<uint32_t>(qkv), static_cast<uint32_t>(q),
                       2 * qkv + 2 * q + 2 * d + group * (d + 1) + units * group * (d + 2), 2ull * kPage * d + units};
  in_pieces(core, a, p, width, [&](Step& s, uint32_t x_offset, uint32_t y_offset) {
    make_angles(s);
    const Tile<float> x = broadcast_in(s, x_offset, s.m * s.qkv_width);
    const Tile<float> y = core.alloc<float>(s.m * s.q_width);
    attend(s, 0, x, y);
    store_out(s, y_offset, y);
  });
}

inline void part_swiglu(Core& core, const jal_llama_step& a, const jal_llama_part& p) {
  check_part(core, a, p);
  if (a.ffn == 0) return;
  const uint64_t ffn = a.ffn;
  in_pieces(core, a, p, {2 * a.ffn, a.ffn, 4 * ffn, 0}, [&](Step& s, uint32_t x_offset, uint32_t y_offset) {
    const Tile<float> x = broadcast_in(s, x_offset, s.m * 2 * a.ffn);
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
    store_out(s, y_offset, y);
  });
}

inline void part_residual(Core& core, const jal_llama_step& a, const jal_llama_part& p) {
  check_part(core, a, p);
  if (a.hidden == 0) return;
  const uint64_t hidden = a.hidden;
  in_pieces(core, a, p, {a.hidden, a.hidden, 3 * hidden, 0}, [&](Step& s, uint32_t x_offset, uint32_t y_offset) {
    const Tile<float> x = broadcast_in(s, x_offset, s.m * a.hidden);
    const Tile<float> other = broadcast_in(s, p.matrix_offset + (x_offset - p.x_offset), s.m * a.hidden);
    const Tile<float> y = core.alloc<float>(x.size());
    core.wait(core.add(y, x, other));
    store_out(s, y_offset, y);
  });
}

inline void part_sample(Core& core, const jal_llama_step& a, const jal_llama_part& p) {
  check_part(core, a, p);
  JAL_KERNEL_ASSERT(core, a.vocab > 0);
  check_sampling(core, a);
  Step s(core, a);
  const Tile<float> own = core.alloc<float>(s.vocab_rows.count);
  // Each core's share of the logits comes from rank 0, which alone has slice 0 close by.
  if (core.rank() != 0) {
    if (own.size() > 0) core.wait(core.recv(0, own));
    return sample(s, own);
  }
  const Tile<float> share = core.alloc<float>(s.vocab_rows.block);
  const uint32_t block = s.vocab_rows.block;
  for (uint32_t r = 1; r < core.size() && static_cast<uint64_t>(r) * block < a.vocab; ++r) {
    const uint32_t first = r * block;
    const Tile<float> part = share.part(0, a.vocab - first < block ? a.vocab - first : block);
    const Ev loaded = core.load(part, core.local(p.x_offset + first * 4ull));
    core.wait(core.send(r, part, After(loaded)));
  }
  core.release(share);
  core.wait(core.load(own, core.local(p.x_offset)));
  sample(s, own);
}

}  // namespace jal::ops::llama
