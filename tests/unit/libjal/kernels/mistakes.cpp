// Kernels with one mistake each, for JAL_SANITIZE. The test looks for the comment at the end of the line that is
// reported.
#include <jal/kernel/core.hpp>

using namespace jal::kernel;

/// Everything right: loads, computes, adds over the cores, stores.
JAL_KERNEL(clean, Core& core, Address x) {
  const auto tile = core.alloc<float>(16), sum = core.alloc<float>(16);
  const Ev loaded = core.load(tile, core.local(x.value));
  const Ev scaled = core.scale(tile, tile, 2, loaded);
  const Ev added = core.allreduce(core.all(), JAL_REDUCE_SUM, sum, tile, scaled);
  core.wait(core.store(core.local(x.value), sum, added));
}

JAL_KERNEL(overrun, Core& core, Address) {
  if (core.rank() != 2) return;
  const auto tile = core.alloc<uint32_t>(16);
  core.write_view(tile).data()[16] = 1;
  core.release(tile);  // report: memory
}

JAL_KERNEL(short_tile, Core& core, Address x) {
  if (core.rank() != 2) return;
  const auto large = core.alloc<float>(16), small = core.alloc<float>(8);
  const Ev loaded = core.load(large, core.local(x.value));
  core.wait(core.scale(large, small, 1, loaded));  // report: short_tile
}

JAL_KERNEL(unwritten, Core& core, Address x) {
  if (core.rank() != 2) return;
  const auto tile = core.alloc<float>(16);
  core.wait(core.load(tile.part(0, 8), core.local(x.value)));
  core.wait(core.store(core.local(x.value), tile));  // report: init
}

JAL_KERNEL(hasty, Core& core, Address x) {
  if (core.rank() != 2) return;
  const auto tile = core.alloc<float>(16);
  (void)core.load(tile, core.local(x.value));
  (void)core.view(tile)[0];  // report: race
}

JAL_KERNEL(distant, Core& core, Address x) {
  if (core.rank() != 2) return;
  const auto tile = core.alloc<float>(16);
  core.wait(core.load(tile, JAL_ADDRESS_HBM(0, x.value)));  // report: locality
}
