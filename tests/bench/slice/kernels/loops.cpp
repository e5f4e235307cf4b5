// Kernels that do one thing often: a verb, so that its host time can be told from a launch's; a matrix times a vector
// from HBM.
#include "kernels/loops.h"

#include <jal/kernel/core.hpp>

namespace {
using namespace jal::kernel;
constexpr uint32_t kTiny = 16;  // elements: one vector register
constexpr uint32_t kTinyK = 32;
}  // namespace

/// `count` times the verb, on tiles as small as they come. `buffer`: 64 bytes in the core's own slice.
JAL_KERNEL(verb_loop, Core& core, uint32_t verb, uint32_t count, Address buffer) {
  const Tile<float> a = core.alloc<float>(kTiny);
  const Tile<float> b = core.alloc<float>(kTiny);
  const Tile<float> out = core.alloc<float>(kTiny);
  const Tile<float> x = core.alloc<float>(kTinyK);
  const Bytes operand = core.alloc<uint8_t>(core.operand_bytes(JAL_DTYPE_F32, kTinyK, 1));
  const Bytes weights = core.alloc<uint8_t>(static_cast<uint32_t>(core.weight_tile_bytes(JAL_DTYPE_BF16, 1, kTinyK)));
  for (float& value : core.write_view(a)) value = 1;
  for (float& value : core.write_view(b)) value = 2;
  for (float& value : core.write_view(x)) value = 1;
  for (uint8_t& value : core.write_view(weights)) value = 0;
  core.wait(core.prepare(operand, x, JAL_DTYPE_F32, kTinyK, 1, kTinyK));
  Ev last = {};
  switch (verb) {
    case JAL_LOOP_ADD:
      for (uint32_t i = 0; i < count; ++i) last = core.add(out, a, b);
      break;
    case JAL_LOOP_LOAD:
      for (uint32_t i = 0; i < count; ++i) last = core.load(out, buffer.value);
      break;
    case JAL_LOOP_STORE:
      for (uint32_t i = 0; i < count; ++i) last = core.store(buffer.value, a);
      break;
    case JAL_LOOP_GEMM: {
      jal_gemm_op op = {};
      op.weights = weights.raw();
      op.operand = operand.raw();
      op.y = out.part(0, 1).raw();
      op.weight_dtype = JAL_DTYPE_BF16;
      op.activation_dtype = JAL_DTYPE_F32;
      op.rows = op.y_stride = op.m = 1;
      op.k = kTinyK;
      op.panels = 8;
      for (uint32_t i = 0; i < count; ++i) last = core.gemm(op);
      break;
    }
    case JAL_LOOP_WAIT:
      last = core.add(out, a, b);
      for (uint32_t i = 0; i < count; ++i) core.wait(last);
      break;
    case JAL_LOOP_ALLOC:  // with its release, so that L1 does not fill: two verbs
      for (uint32_t i = 0; i < count; i += 2) core.release(core.alloc<float>(kTiny));
      break;
    default:
      core.fail("verb_loop: no such verb");
  }
  core.wait(last);
}

/// y = W x: x (FP32, slice of core 0) goes to every core, each multiplies its own `tiles` weight tiles of `rows` by k,
/// one after another, and stores the last one's y.
JAL_KERNEL(gemv_stream, Core& core, jal_gemv_stream a) {
  const Tile<float> x = core.alloc<float>(a.k);
  if (core.rank() == 0) {
    const Tile<float> source = core.alloc<float>(a.k);
    const Ev loaded = core.load(source, core.local(a.x_offset));
    core.wait(core.broadcast(core.all(), 0, x, source, After(loaded)));
  } else {
    core.wait(core.broadcast(core.all(), 0, x, Tile<float>()));
  }
  const uint32_t activation = a.weight_dtype == JAL_DTYPE_BF16 ? JAL_DTYPE_F32 : JAL_DTYPE_BF16;
  const Bytes operand = core.alloc<uint8_t>(core.operand_bytes(activation, a.k, 1));
  const Ev ready = core.prepare(operand, x, activation, a.k, 1, a.k);
  const Tile<float> y = core.alloc<float>(a.rows);
  const uint64_t tile_bytes = core.weight_tile_bytes(a.weight_dtype, a.rows, a.k);
  jal_gemm_op op = {};
  op.operand = operand.raw();
  op.y = y.raw();
  op.weight_dtype = a.weight_dtype;
  op.activation_dtype = activation;
  op.rows = op.y_stride = a.rows;
  op.k = a.k;
  op.m = 1;
  op.panels = 8;
  for (uint32_t i = 0; i < a.tiles; ++i) {
    const Bytes weights = core.alloc<uint8_t>(static_cast<uint32_t>(tile_bytes));
    op.weights = weights.raw();
    const Ev loaded = core.load(weights, core.local(a.weights_offset + i * tile_bytes));
    core.wait(core.gemm(op, After(ready, loaded)));
    core.release(weights);
  }
  core.wait(core.store(core.local(a.y_offset), y));
}
