// One decoder layer of a GPT-OSS-like model on one chip's 64 cores, one token: two kernels, each ending where the chips
// must sum. What the chips exchange is not in here: a chip computes its own part.
//
// Written for latency: whatever does not depend on the token (weights, cached keys and values) is asked for first, the
// new token's key and value are used from L1 while they are stored, and engines wait for each other, not the core.
// Left out of the published model: biases, and the clamp inside its SwiGLU.
#include "kernels/decoder_layer.h"

#include <jal/kernel/core.hpp>

namespace {

using namespace jal::kernel;

constexpr uint32_t kActiveMax = 8;

/// Splits a core's time by what it waited for.
class Stopwatch {
 public:
  explicit Stopwatch(Core& core) : core_(core), last_ps_(core.clock_ps()) {}
  void lap(uint64_t jal_decoder_profile::*part) {
    const uint64_t now_ps = core_.clock_ps();
    profile_.*part += now_ps - last_ps_;
    last_ps_ = now_ps;
  }
  /// Stored by core 0; costs time, which no lap counts.
  void store(uint64_t offset) {
    if (offset == 0 || core_.rank() != 0) return;
    const Tile<jal_decoder_profile> tile = core_.alloc<jal_decoder_profile>(1);
    core_.write_view(tile)[0] = profile_;
    core_.wait(core_.store(core_.local(offset), tile));
  }

 private:
  Core& core_;
  uint64_t last_ps_;
  jal_decoder_profile profile_ = {};
};

constexpr auto kHbm = &jal_decoder_profile::hbm_ps;
constexpr auto kEngine = &jal_decoder_profile::engine_ps;
constexpr auto kCollective = &jal_decoder_profile::collective_ps;

Bytes load_weights(Core& core, uint64_t offset, uint32_t dtype, uint32_t rows, uint32_t k, Ev* ev) {
  const Bytes tile = core.alloc<uint8_t>(static_cast<uint32_t>(core.weight_tile_bytes(dtype, rows, k)));
  *ev = core.load(tile, core.local(offset));
  return tile;
}

Bytes prepare(Core& core, Tile<float> x, uint32_t activation, uint32_t k, After after, Ev* ev) {
  const Bytes operand = core.alloc<uint8_t>(core.operand_bytes(activation, k, 1));
  *ev = core.prepare(operand, x, activation, k, 1, k, after);
  return operand;
}

Ev multiply(Core& core, Tile<float> y, Bytes weights, uint32_t weight_dtype, Bytes operand, uint32_t k, After after) {
  jal_gemm_op op = {};
  op.weights = weights.raw();
  op.operand = operand.raw();
  op.y = y.raw();
  op.weight_dtype = weight_dtype;
  op.activation_dtype = weight_dtype == JAL_DTYPE_BF16 ? JAL_DTYPE_F32 : JAL_DTYPE_BF16;
  op.rows = op.y_stride = y.size();
  op.k = k;
  op.m = 1;
  op.panels = 8;
  return core.gemm(op, after);
}

/// This core's part of the residual stream, and the sum that is to be added to it.
struct Residual {
  Tile<float> x, sum, norm;
  Ev x_ev, sum_ev, norm_ev;
};

Residual load_residual(Core& core, const jal_decoder_layer& a, uint64_t norm_offset) {
  const uint32_t mine = a.hidden / core.size();
  Residual r;
  r.x = core.alloc<float>(mine);
  r.sum = core.alloc<float>(mine);
  r.norm = core.alloc<float>(a.hidden);
  r.x_ev = core.load(r.x, core.local(a.x_offset));
  r.sum_ev = core.load(r.sum, core.local(a.sum_offset));
  r.norm_ev = core.load(r.norm, core.local(norm_offset));
  return r;
}

/// The whole stream, normalised; its ticket in *ev.
Tile<float> gather_normalised(Core& core, const jal_decoder_layer& a, const Residual& r, Stopwatch& watch, Ev* ev) {
  const Tile<float> all = core.alloc<float>(a.hidden);
  const Tile<float> normed = core.alloc<float>(a.hidden);
  core.wait(r.sum_ev);
  watch.lap(kHbm);
  const Ev added = core.add(r.x, r.x, r.sum, After(r.x_ev, r.sum_ev));
  core.wait(added);
  watch.lap(kEngine);
  const Ev gathered = core.allgather(core.all(), all, r.x);
  core.wait(gathered);
  watch.lap(kCollective);
  *ev = core.rmsnorm(normed, all, r.norm, a.norm_epsilon, 1, After(r.norm_ev));
  (void)core.store(core.local(a.x_offset), r.x, After(added));
  return normed;
}

/// The chip's part of the next sum goes where the fabric port takes it.
void store_sum(Core& core, const jal_decoder_layer& a, Tile<float> part, Stopwatch& watch) {
  core.wait(core.store(core.local(a.sum_offset), part));
  watch.lap(kHbm);
  watch.store(a.profile_offset);
}

/// out = rows of head_dim elements, turned by the token's angles; angles = cosines, then sines.
Ev rotate(Core& core, Tile<float> out, Tile<float> in, Tile<float> angles, uint32_t rows, After after) {
  const uint32_t d = angles.size();
  jal_vec_op op = {};
  op.fn = JAL_VEC_ROPE_HALVES;
  op.n = d;
  op.rows = rows;
  op.a_stride = op.out_stride = d;
  op.a = in.raw();
  op.b = angles.part(0, d / 2).raw();
  op.c = angles.part(d / 2, d / 2).raw();
  op.out = out.raw();
  return core.vec(op, after);
}

Ev axpy(Core& core, Tile<float> out, float factor, Tile<float> a, Tile<float> b, After after) {
  jal_vec_op op = {};
  op.fn = JAL_VEC_AXPY;
  op.n = out.size();
  op.s0 = factor;
  op.a = a.raw();
  op.b = b.raw();
  op.out = out.raw();
  return core.vec(op, after);
}

}  // namespace

JAL_KERNEL(decoder_attention, Core& core, jal_decoder_layer a) {
  Stopwatch watch(core);
  const uint32_t d = a.head_dim;
  const uint32_t mine = a.hidden / core.size();
  const uint32_t width = a.heads * d;
  const uint32_t qkv_rows = (width + 2 * d) / core.size();
  JAL_KERNEL_ASSERT(core, a.hidden % core.size() == 0 && (width + 2 * d) % core.size() == 0 && a.kv_tokens > 0);
  const bool is_first = core.rank() == 0;
  const bool is_last = core.rank() == core.size() - 1;

  const Residual residual = load_residual(core, a, a.norm_offset);
  Ev qkv_ev, o_ev, ready;
  const Bytes qkv_weights = load_weights(core, a.qkv_offset, JAL_DTYPE_BF16, qkv_rows, a.hidden, &qkv_ev);
  const Tile<uint16_t> keys = core.alloc<uint16_t>(a.kv_tokens * d);
  const Tile<uint16_t> values = core.alloc<uint16_t>(a.kv_tokens * d);
  const Ev keys_ev = core.load(keys, core.local(a.keys_offset));
  const Ev values_ev = core.load(values, core.local(a.values_offset));
  const Bytes o_weights = load_weights(core, a.o_offset, JAL_DTYPE_BF16, mine, width, &o_ev);
  const Tile<float> sinks = core.alloc<float>(is_first ? a.heads : 0);
  const Ev sinks_ev = is_first ? core.load(sinks, core.local(a.sinks_offset)) : Ev{};
  const Tile<float> angles = core.alloc<float>(d);
  jal_vec_op table = {};
  table.fn = JAL_VEC_ROPE_TABLE;
  table.n = d;
  table.u0 = a.position;
  table.s0 = a.rope_base;
  table.out = angles.raw();
  const Ev angles_ev = core.vec(table);

  const Tile<float> normed = gather_normalised(core, a, residual, watch, &ready);
  const Bytes operand = prepare(core, normed, JAL_DTYPE_F32, a.hidden, After(ready), &ready);
  const Tile<float> own = core.alloc<float>(qkv_rows);
  const Tile<float> qkv = core.alloc<float>(width + 2 * d);
  core.wait(multiply(core, own, qkv_weights, JAL_DTYPE_BF16, operand, a.hidden, After(ready, qkv_ev)));
  watch.lap(kEngine);
  core.wait(core.allgather(core.all(), qkv, own));
  watch.lap(kCollective);

  // Leaves of the softmax bracket: a page for each core, the new token (last core), the sinks (core 0).
  const uint32_t part_floats = a.heads * (d + 2);
  const uint32_t items = 1 + (is_first ? 1 : 0) + (is_last ? 1 : 0);
  const Tile<float> parts = core.alloc<float>(items * part_floats);
  uint32_t leaf[3] = {core.rank(), is_last ? core.size() : core.size() + 1, core.size() + 1};
  const Tile<float> q = core.alloc<float>(width);
  const Ev q_ev = rotate(core, q, qkv.part(0, width), angles, a.heads, After(angles_ev));
  jal_attention_op op = {};
  op.q = q.raw();
  op.keys = keys.raw();
  op.values = values.raw();
  op.parts = parts.part(0, part_floats).raw();
  op.rows = a.heads;
  op.head_dim = d;
  op.tokens = a.kv_tokens;
  op.q_stride = d;
  op.scale = rsqrt_f32(static_cast<float>(d));
  Ev attended = core.attention(op, After(q_ev, keys_ev, values_ev));
  if (is_last) {
    const Tile<float> key = core.alloc<float>(d);
    const Tile<uint16_t> new_key = core.alloc<uint16_t>(d);
    const Tile<uint16_t> new_value = core.alloc<uint16_t>(d);
    const Ev turned = rotate(core, key, qkv.part(width, d), angles, 1, After(angles_ev));
    const Ev key_ev = core.bf16_from_f32(new_key, key, After(turned));
    const Ev value_ev = core.bf16_from_f32(new_value, qkv.part(width + d, d));
    op.keys = new_key.raw();
    op.values = new_value.raw();
    op.parts = parts.part(part_floats, part_floats).raw();
    op.tokens = 1;
    attended = core.attention(op, After(q_ev, key_ev, value_ev));
    (void)core.store(core.local(a.keys_offset + a.kv_tokens * d * 2ull), new_key, After(key_ev));
    (void)core.store(core.local(a.values_offset + a.kv_tokens * d * 2ull), new_value, After(value_ev));
  }
  core.wait(attended);
  watch.lap(kEngine);
  if (is_first) {  // a sink is a logit without a value
    core.wait(sinks_ev);
    const View<const float> sink = core.view(sinks);
    const View<float> out = core.write_view(parts.part(part_floats * (items - 1), part_floats));
    for (uint32_t head = 0; head < a.heads; ++head) {
      for (uint32_t i = 0; i < d; ++i) out[head * (d + 2) + i] = 0;
      out[head * (d + 2) + d] = sink[head];
      out[head * (d + 2) + d + 1] = 1;
    }
  }
  const Tile<float> mixed = core.alloc<float>(width);
  jal_coll_op merge = {};
  merge.kind = JAL_COLL_MERGE;
  merge.group = core.all().mask;
  merge.src = parts.raw();
  merge.dst = mixed.raw();
  merge.leaf = leaf;
  merge.items = items;
  merge.slots = 1;
  merge.leaf_stride = merge.leaf_count = core.size() + 2;
  merge.rows = a.heads;
  merge.head_dim = d;
  core.wait(core.collective(merge));
  watch.lap(kCollective);

  const Bytes mixed_operand = prepare(core, mixed, JAL_DTYPE_F32, width, {}, &ready);
  const Tile<float> y = core.alloc<float>(mine);
  core.wait(multiply(core, y, o_weights, JAL_DTYPE_BF16, mixed_operand, width, After(ready, o_ev)));
  watch.lap(kEngine);
  store_sum(core, a, y, watch);
}

JAL_KERNEL(decoder_experts, Core& core, jal_decoder_layer a) {
  Stopwatch watch(core);
  const uint32_t mine = a.hidden / core.size();
  const uint32_t router_rows = a.experts / core.size();
  JAL_KERNEL_ASSERT(core, a.hidden % core.size() == 0 && a.experts % core.size() == 0);
  JAL_KERNEL_ASSERT(core, a.active % 2 == 0 && a.active > 0 && a.active <= kActiveMax && a.stored > 0);
  const uint32_t first = core.rank() * a.expert_rows;
  const uint32_t left = first < a.intermediate ? a.intermediate - first : 0;
  const uint32_t rows = left < a.expert_rows ? left : a.expert_rows;

  Ev router_ev, ready, operand_ev, router_operand_ev;
  const Residual residual = load_residual(core, a, a.ffn_norm_offset);
  const Bytes router = load_weights(core, a.router_offset, JAL_DTYPE_BF16, router_rows, a.hidden, &router_ev);
  const Tile<float> normed = gather_normalised(core, a, residual, watch, &ready);

  // Router: every core scores its rows and chooses from all of them, so all choose alike.
  const Bytes router_operand = prepare(core, normed, JAL_DTYPE_F32, a.hidden, After(ready), &router_operand_ev);
  const Bytes operand = prepare(core, normed, JAL_DTYPE_BF16, a.hidden, After(ready), &operand_ev);
  const Tile<float> own_logits = core.alloc<float>(router_rows);
  const Tile<float> logits = core.alloc<float>(a.experts);
  core.wait(multiply(core, own_logits, router, JAL_DTYPE_BF16, router_operand, a.hidden,
                     After(router_operand_ev, router_ev)));
  watch.lap(kEngine);
  core.wait(core.allgather(core.all(), logits, own_logits));
  watch.lap(kCollective);
  struct Choice {
    uint32_t expert;
    float logit;
  };
  const Tile<Choice> choices = core.alloc<Choice>(a.active);
  jal_vec_op top = {};
  top.fn = JAL_VEC_TOP_K;
  top.n = a.experts;
  top.u0 = a.active;
  top.a = logits.raw();
  top.out = choices.raw();
  core.wait(core.vec(top));

  // The chosen experts' weights start on their way before the choice becomes factors.
  const uint64_t gate_up_bytes = core.weight_tile_bytes(JAL_DTYPE_MXFP4, 2 * a.expert_rows, a.hidden);
  const uint64_t down_bytes = core.weight_tile_bytes(JAL_DTYPE_MXFP4, mine, a.intermediate);
  const View<const Choice> choice = core.view(choices);
  Bytes gate_up[kActiveMax], down[kActiveMax];
  Ev gate_up_ev[kActiveMax], down_ev[kActiveMax];
  const auto address = [&](uint32_t j) {
    return a.experts_offset + choice[j].expert % a.stored * (gate_up_bytes + down_bytes);
  };
  for (uint32_t j = 0; j < a.active; ++j)
    gate_up[j] = load_weights(core, address(j), JAL_DTYPE_MXFP4, 2 * a.expert_rows, a.hidden, &gate_up_ev[j]);
  for (uint32_t j = 0; j < a.active; ++j)
    down[j] = load_weights(core, address(j) + gate_up_bytes, JAL_DTYPE_MXFP4, mine, a.intermediate, &down_ev[j]);
  const Tile<float> chosen = core.alloc<float>(a.active);
  const Tile<float> factors = core.alloc<float>(a.active);
  for (uint32_t j = 0; j < a.active; ++j) core.write_view(chosen)[j] = choice[j].logit;
  jal_vec_op softmax = {};
  softmax.fn = JAL_VEC_SOFTMAX;
  softmax.n = a.active;
  softmax.a = chosen.raw();
  softmax.out = factors.raw();
  const Ev factors_ev = core.vec(softmax);
  watch.lap(kEngine);
  core.wait(gate_up_ev[0]);
  watch.lap(kHbm);

  const Tile<float> own = core.alloc<float>(a.active * rows);
  const Tile<float> inner = core.alloc<float>(a.active * a.intermediate);
  Ev last = {};
  for (uint32_t j = 0; j < a.active; ++j) {
    const Tile<float> both = core.alloc<float>(2 * a.expert_rows);
    const Ev y_ev =
        multiply(core, both, gate_up[j], JAL_DTYPE_MXFP4, operand, a.hidden, After(operand_ev, gate_up_ev[j]));
    if (rows > 0)
      last = core.swiglu(own.part(j * rows, rows), both.part(0, rows), both.part(a.expert_rows, rows), After(y_ev));
  }
  core.wait(last);
  watch.lap(kEngine);
  core.wait(core.allgather(core.all(), inner, own, a.active));
  watch.lap(kCollective);

  core.wait(factors_ev);
  const View<const float> factor = core.view(factors);
  Tile<float> y[kActiveMax];
  Ev y_ev[kActiveMax];
  for (uint32_t j = 0; j < a.active; ++j) {
    const Bytes inner_operand =
        prepare(core, inner.part(j * a.intermediate, a.intermediate), JAL_DTYPE_BF16, a.intermediate, {}, &ready);
    y[j] = core.alloc<float>(mine);
    y_ev[j] = multiply(core, y[j], down[j], JAL_DTYPE_MXFP4, inner_operand, a.intermediate, After(ready, down_ev[j]));
  }
  // Pairs, then the pairs' sums: fewer engine operations one after the other than a chain.
  for (uint32_t j = 0; j < a.active; j += 2) {
    y_ev[j] = core.scale(y[j], y[j], factor[j], After(y_ev[j]));
    y_ev[j] = axpy(core, y[j], factor[j + 1], y[j + 1], y[j], After(y_ev[j], y_ev[j + 1]));
  }
  for (uint32_t j = 2; j < a.active; j += 2) y_ev[0] = core.add(y[0], y[0], y[j], After(y_ev[0], y_ev[j]));
  core.wait(y_ev[0]);
  watch.lap(kEngine);
  store_sum(core, a, y[0], watch);
}
