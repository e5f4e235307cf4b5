// Grouped-query attention over KV pages that lie in this core's own slice; parts merge over the collective network.
#pragma once
#include "firmware/ops/llama/step.hpp"

namespace jal::ops::llama {

inline constexpr uint32_t kPage = JAL_LLAMA_PAGE_TOKENS;

/// Tokens of the step that lie in a page, as [first, first + count) of the step.
struct Span {
  uint32_t first;
  uint32_t count;
};
inline Span new_tokens(const Step& s, uint32_t page) {
  const uint32_t begin = page * kPage > s.args.position ? page * kPage : s.args.position;
  const uint32_t page_end = (page + 1) * kPage;
  const uint32_t step_end = s.args.position + s.m;
  const uint32_t end = page_end < step_end ? page_end : step_end;
  return begin < end ? Span{begin - s.args.position, end - begin} : Span{0, 0};
}

/// Stores the step's keys (rotated) and values of one unit: consecutive rows of its page, BF16.
inline Ev append(Step& s, Tile<float> qkv, uint32_t head, uint32_t page, uint64_t unit_address) {
  Core& core = s.core;
  const uint32_t d = s.args.head_dim;
  const Span span = new_tokens(s, page);
  if (span.count == 0) return Ev{};
  const uint32_t row = s.args.position + span.first - page * kPage;
  const auto column = [&](uint32_t base) {
    const uint32_t begin = span.first * s.qkv_width + base + head * d;
    return qkv.part(begin, (span.count - 1) * s.qkv_width + d);
  };
  const Tile<float> rotated = core.alloc<float>(span.count * d);
  const Tile<uint16_t> keys = core.alloc<uint16_t>(span.count * d);
  const Tile<uint16_t> values = core.alloc<uint16_t>(span.count * d);
  const Ev turned = rotate(s, rotated, d, column(s.q_width), s.qkv_width, span.first, span.count);
  const Ev keys_ready = core.bf16_from_f32(keys, rotated, After(turned));
  jal_vec_op op = {};
  op.fn = JAL_VEC_BF16_FROM_F32;
  op.n = d;
  op.rows = span.count;
  op.a_stride = s.qkv_width;
  op.out_stride = d;
  op.a = column(s.q_width + s.kv_width).raw();
  op.out = values.raw();
  const Ev values_ready = core.vec(op);
  const Ev k = core.store(unit_address + row * d * 2ull, keys, After(keys_ready));
  const Ev v = core.store(unit_address + (kPage + row) * d * 2ull, values, After(values_ready));
  core.wait(k);
  core.wait(v);
  core.release(rotated);
  return v;
}

/// out[m][heads * head_dim], equal on every core: attention of the step's queries over all tokens up to each one.
inline void attend(Step& s, uint32_t layer, Tile<float> qkv, Tile<float> out) {
  Core& core = s.core;
  const uint32_t d = s.args.head_dim;
  const uint32_t group = s.group_heads;
  const uint32_t rows = s.m * group;
  const uint32_t total = s.args.position + s.m;
  const uint32_t pages = (total + kPage - 1) / kPage;
  const uint32_t units = pages * s.args.kv_heads;
  const uint32_t mine = core.rank() < units ? (units - core.rank() + core.size() - 1) / core.size() : 0;
  const uint64_t unit_bytes = jal_llama_unit_bytes(d);
  const uint64_t layer_address =
      core.local(s.args.kv_offset + layer * static_cast<uint64_t>(s.args.kv_slots) * unit_bytes);

  const uint32_t part_floats = rows * (d + 2);
  // Short sequences leave most cores without a unit: these bring nothing, and only take the result.
  const bool has_tiles = mine > 0 || s.m > 1;
  Tile<float> parts, q;
  Tile<uint32_t> visible;
  uint32_t* leaf = nullptr;
  if (has_tiles) parts = core.alloc<float>(mine * part_floats);
  if (mine > 0) {
    leaf = core.write_view(core.alloc<uint32_t>(mine)).data();
    q = core.alloc<float>(rows * d);
    visible = core.alloc<uint32_t>(rows);
  }
  uint32_t q_head = UINT32_MAX;
  Ev q_ready = {};
  for (uint32_t slot = 0; slot < mine; ++slot) {
    const uint32_t unit = slot * core.size() + core.rank();
    const uint32_t page = unit / s.args.kv_heads;
    const uint32_t head = unit % s.args.kv_heads;
    leaf[slot] = head * pages + page;
    const uint64_t address = layer_address + slot * unit_bytes;
    (void)append(s, qkv, head, page, address);
    if (head != q_head) {
      // Query rows in the order [token][head of the group].
      for (uint32_t g = 0; g < group; ++g) {
        const uint32_t column = (head * group + g) * d;
        const Tile<float> in = qkv.part(column, (s.m - 1) * s.qkv_width + d);
        q_ready = rotate(s, q.part(g * d, (s.m - 1) * group * d + d), group * d, in, s.qkv_width, 0, s.m);
      }
      core.wait(q_ready);
      q_head = head;
    }
    const uint32_t in_page = total - page * kPage < kPage ? total - page * kPage : kPage;
    const kernel::View<uint32_t> sees = core.write_view(visible);
    for (uint32_t i = 0; i < s.m; ++i) {
      const uint32_t upto = s.args.position + i + 1;  // tokens that token i sees, itself included
      const uint32_t here = upto <= page * kPage ? 0 : upto - page * kPage;
      for (uint32_t g = 0; g < group; ++g) sees[i * group + g] = here < in_page ? here : in_page;
    }
    const Tile<uint16_t> keys = core.alloc<uint16_t>(in_page * d);
    const Tile<uint16_t> values = core.alloc<uint16_t>(in_page * d);
    const Ev k = core.load(keys, address);
    const Ev v = core.load(values, address + static_cast<uint64_t>(kPage) * d * 2);
    jal_attention_op op = {};
    op.q = q.raw();
    op.keys = keys.raw();
    op.values = values.raw();
    op.parts = parts.part(slot * part_floats, part_floats).raw();
    op.visible = visible.raw();
    op.rows = rows;
    op.head_dim = d;
    op.tokens = in_page;
    op.q_stride = d;
    op.scale = kernel::rsqrt_f32(static_cast<float>(d));
    core.wait(core.attention(op, After(k, v)));
    core.release(keys);
  }

  // Merged per KV head: [kv_heads][m][group][d]; for one token that is the order of the output already.
  const Tile<float> merged = s.m == 1 ? out : core.alloc<float>(s.args.kv_heads * rows * d);
  jal_coll_op op = {};
  op.kind = JAL_COLL_MERGE;
  op.group = s.all.mask;
  op.src = parts.raw();
  op.dst = merged.raw();
  op.leaf = leaf;
  op.items = mine;
  op.slots = s.args.kv_heads;
  op.leaf_stride = pages;
  op.leaf_count = pages;
  op.rows = rows;
  op.head_dim = d;
  core.wait(core.collective(op));
  if (s.m > 1) {
    for (uint32_t head = 0; head < s.args.kv_heads; ++head) {
      const Tile<float> to = out.part(head * group * d, (s.m - 1) * s.q_width + group * d);
      core.wait(copy_rows(s, to, s.q_width, merged.part(head * rows * d, rows * d), group * d, group * d, s.m));
    }
  }
  if (has_tiles) core.release(parts);
}

}  // namespace jal::ops::llama
