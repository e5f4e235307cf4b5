// Kernels for tests of libjal: one per argument type, one per way to fail.
#include <jal/kernel/core.hpp>

using namespace jal::kernel;

struct Pair {
  float a;
  uint32_t b;
};

/// Writes what it was given to `out`, one word per value, from core 0.
JAL_KERNEL(echo, Core& core, Address out, uint32_t u, int32_t i, float f, uint64_t wide, Pair pair) {
  if (core.rank() != 0) return;
  const auto tile = core.alloc<uint32_t>(16);
  const auto words = core.write_view(tile);
  words[0] = u;
  words[1] = static_cast<uint32_t>(i);
  words[2] = __builtin_bit_cast(uint32_t, f);
  words[3] = static_cast<uint32_t>(wide);
  words[4] = static_cast<uint32_t>(wide >> 32);
  words[5] = __builtin_bit_cast(uint32_t, pair.a);
  words[6] = pair.b;
  core.wait(core.store(out.value, tile));
}

/// y = x * factor in every slice.
JAL_KERNEL(scale, Core& core, Tensor x, Tensor y, float factor) {
  const uint32_t count = x.local(0, core.id()).count;
  if (count == 0) return;
  const auto tile = core.alloc<float>(count), scaled = core.alloc<float>(count);
  const auto loaded = core.load(tile, x.address(core.id()));
  const auto done = core.scale(scaled, tile, factor, loaded);
  core.wait(core.store(y.address(core.id()), scaled, done));
}

JAL_KERNEL(nothing, Core&) {}

JAL_KERNEL(say, Core& core, uint32_t number) {
  if (core.rank() == 0) core.printf("the number is %u\n", number);
}

JAL_KERNEL(stray, Core& core, Address where) {
  if (core.rank() != 0) return;
  const auto tile = core.alloc<float>(16);
  core.wait(core.load(tile, where.value));
}

JAL_KERNEL(wild, Core& core, uint64_t pointer) {
  if (core.rank() == 0) *reinterpret_cast<volatile uint32_t*>(pointer) = 1;
}

JAL_KERNEL(greedy, Core& core) { core.alloc<float>(core.l1_bytes); }

JAL_KERNEL(lonely, Core& core) {
  const auto tile = core.alloc<float>(16);
  core.wait(core.recv((core.rank() + 1) % core.size(), tile));
}

JAL_KERNEL(forever, Core&) {
  for (;;) asm volatile("");
}
