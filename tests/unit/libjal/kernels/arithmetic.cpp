// One kernel whose bits a careless compiler would change: products that feed sums, for fusing, and a sum in order, for
// reordering.
#include <jal/kernel/core.hpp>

using namespace jal::kernel;

/// A core has fused multiply-add, and a compiler that may infer it does so here from -O2 on.
#if defined(__x86_64__)
__attribute__((target("fma"), noinline))
#endif
static float
polynomial(float x) {
  return ((0.3f * x + 0.7f) * x - 1.1f) * x + 0.1f;
}

/// From core 0: `count` values p(x[i]), then their sum and the sum of their reciprocals and ratios, in order.
JAL_KERNEL(arithmetic, Core& core, Address x, Address out, uint32_t count) {
  if (core.rank() != 0) return;
  const auto in = core.alloc<float>(count), result = core.alloc<float>(count + 3);
  core.wait(core.load(in, x.value));
  const auto values = core.view(in);
  const auto results = core.write_view(result);
  float sum = 0, reciprocals = 0, ratios = 0;
  for (uint32_t i = 0; i < count; ++i) {
    const float p = polynomial(values[i]);
    results[i] = p;
    sum += p;
    reciprocals += 1 / p;
    ratios += p / 3 * values[i] - values[i];
  }
  results[count] = sum;
  results[count + 1] = reciprocals;
  results[count + 2] = ratios;
  core.wait(core.store(out.value, result));
}
