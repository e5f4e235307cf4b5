// Kernels for tests of the emulator: each does one thing that the host can check.
#include <jal/kernel/core.hpp>

using namespace jal::kernel;

/// x[n] in this core's own slice *= factor.
JAL_KERNEL(scale, Core& core, Address x, uint32_t n, float factor) {
  const auto tile = core.alloc<float>(n);
  const uint64_t address = core.local(x.value);
  const Ev loaded = core.load(tile, address);
  const Ev scaled = core.scale(tile, tile, factor, loaded);
  core.wait(core.store(address, tile, scaled));
}

/// x[n] of every slice = the sum over all cores.
JAL_KERNEL(sum, Core& core, Address x, uint32_t n) {
  const auto mine = core.alloc<float>(n), total = core.alloc<float>(n);
  const uint64_t address = core.local(x.value);
  const Ev loaded = core.load(mine, address);
  const Ev summed = core.allreduce(core.all(), JAL_REDUCE_SUM, total, mine, loaded);
  core.wait(core.store(address, total, summed));
}

JAL_KERNEL(say, Core& core, uint32_t number) {
  if (core.rank() == 0) core.printf("core %u of %u says %u\n", core.id(), core.size(), number);
}

/// Reads an address that is nobody's, from the last core.
JAL_KERNEL(stray, Core& core, Address x) {
  if (core.rank() + 1 != core.size()) return;
  const auto tile = core.alloc<float>(16);
  core.wait(core.load(tile, x.value));
}

/// Writes through a pointer of its own making.
JAL_KERNEL(wild, Core& core, uint64_t pointer) {
  if (core.rank() == 0) *reinterpret_cast<volatile uint32_t*>(pointer) = 1;
}

JAL_KERNEL(forever, Core&) {
  for (;;) asm volatile("");
}

/// Every core waits for a message that nobody sends.
JAL_KERNEL(lonely, Core& core) {
  const auto tile = core.alloc<float>(16);
  core.wait(core.recv((core.rank() + 1) % core.size(), tile));
}
