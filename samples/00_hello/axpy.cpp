// The device's half: y = a * x + y. Every core runs this function, each on the part that lies in its own HBM slice.
#include <jal/kernel/core.hpp>

using jal::kernel::After;
using jal::kernel::Core;
using jal::kernel::Tensor;

JAL_KERNEL(axpy, Core& core, Tensor x, Tensor y, float a) {
  const uint32_t slice = core.id();
  const uint32_t count = x.local(0, slice).count;
  if (count == 0) return;
  // Tiles are buffers in the core's L1. Loads, the vector engine and stores run on their own; a ticket orders them.
  const auto x_tile = core.alloc<float>(count);
  const auto y_tile = core.alloc<float>(count);
  const auto scaled = core.alloc<float>(count);
  const auto sum = core.alloc<float>(count);
  const auto x_loaded = core.load(x_tile, x.address(slice));
  const auto y_loaded = core.load(y_tile, y.address(slice));
  const auto multiplied = core.scale(scaled, x_tile, a, x_loaded);
  const auto added = core.add(sum, scaled, y_tile, After(multiplied, y_loaded));
  core.wait(core.store(y.address(slice), sum, added));
  if (core.rank() == 0) core.printf("axpy on %u cores, %u elements here\n", core.size(), count);
}
