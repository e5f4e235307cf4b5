// Vector functions that are lists of kernels, and those that need no kernel.
#include "emulator/engines/vector.hpp"

#include <algorithm>
#include <cstring>

#include "emulator/engines/kernels.hpp"
#include "jal/kernel/math.hpp"

namespace jal::emu {

void vec_copy(const float* x, float* out, std::size_t n) {
  if (n != 0) std::memmove(out, x, n * sizeof(float));
}
void vec_fill(float value, float* out, std::size_t n) { std::fill_n(out, n, value); }
void vec_add(const float* a, const float* b, float* out, std::size_t n) { kernels().add(a, b, out, n); }
void vec_sub(const float* a, const float* b, float* out, std::size_t n) { kernels().sub(a, b, out, n); }
void vec_mul(const float* a, const float* b, float* out, std::size_t n) { kernels().mul(a, b, out, n); }
void vec_fma(const float* a, const float* b, const float* c, float* out, std::size_t n) {
  kernels().fma(a, b, c, out, n);
}
void vec_axpy(float alpha, const float* x, const float* y, float* out, std::size_t n) {
  kernels().axpy(alpha, x, y, out, n);
}
void vec_scale(float alpha, const float* x, float* out, std::size_t n) { kernels().scale(alpha, x, out, n); }
void vec_exp(const float* x, float* out, std::size_t n) { kernels().exp(x, out, n); }
void vec_silu(const float* x, float* out, std::size_t n) { kernels().silu(x, out, n); }
void vec_swiglu(const float* gate, const float* up, float* out, std::size_t n) { kernels().swiglu(gate, up, out, n); }
float vec_sum(const float* x, std::size_t n) { return kernels().sum(x, n); }
float vec_sum_squares(const float* x, std::size_t n) { return kernels().sum_squares(x, n); }
float vec_max(const float* x, std::size_t n) { return kernels().max(x, n); }

void vec_rmsnorm(const float* x, const float* weight, float epsilon, float* out, std::size_t n) {
  if (n == 0) return;
  const KernelTable& table = kernels();
  const float mean = table.sum_squares(x, n) / static_cast<float>(n);
  const float r = kernel::rsqrt_f32(mean + epsilon);
  if (weight == nullptr) {
    table.scale(r, x, out, n);
  } else {
    table.scale_mul(x, r, weight, out, n);
  }
}

void vec_softmax(const float* x, float* out, std::size_t n) {
  if (n == 0) return;
  const KernelTable& table = kernels();
  const float m = table.max(x, n);
  // All minus infinity (or NaN): subtract nothing, so that the sum, and not a difference of infinities, decides.
  table.exp_minus(x, m == -__builtin_inff() ? 0.0f : m, out, n);
  table.div_scalar(out, table.sum(out, n), out, n);
}

void vec_rope_pairs(const float* x, const float* cosine, const float* sine, float* out, std::size_t pairs) {
  kernels().rope_pairs(x, cosine, sine, out, pairs);
}
void vec_rope_halves(const float* x, const float* cosine, const float* sine, float* out, std::size_t pairs) {
  kernels().rope_halves(x, cosine, sine, out, pairs);
}
void rope_table(std::uint32_t position, double base, std::uint32_t head_dim, float* out_cosine, float* out_sine) {
  kernel::rope_table_row(position, base, head_dim, out_cosine, out_sine);
}
void vec_bf16_from_f32(const float* x, std::uint16_t* out, std::size_t n) { kernels().bf16_from_f32(x, out, n); }
void vec_f32_from_bf16(const std::uint16_t* x, float* out, std::size_t n) { kernels().f32_from_bf16(x, out, n); }

std::uint32_t vec_argmax(const float* x, std::size_t n) {
  // The maximum by the fast reduction, then its first place; -0 and +0 compare equal, so the lowest of them is found.
  const float m = kernels().max(x, n);
  for (std::size_t i = 0; i < n; ++i) {
    if (x[i] == m) return static_cast<std::uint32_t>(i);
  }
  return 0;
}

void vec_top_k(const float* x, std::size_t n, std::uint32_t k, std::uint32_t* out_index, float* out_value) {
  // A heap of the k best, the worst on top; `better` is a total order, so the result does not depend on the method.
  struct Entry {
    float value;
    std::uint32_t index;
  };
  const auto better = [](const Entry& a, const Entry& b) {
    const bool a_nan = kernel::is_nan(a.value);
    const bool b_nan = kernel::is_nan(b.value);
    if (a_nan != b_nan) return b_nan;
    if (!a_nan && a.value != b.value) return a.value > b.value;
    return a.index < b.index;
  };
  if (k == 0) return;
  Entry* heap = reinterpret_cast<Entry*>(thread_scratch(std::size_t{k} * sizeof(Entry) / sizeof(float)));
  std::size_t held = 0;
  for (std::size_t i = 0; i < n; ++i) {
    const Entry entry{x[i], static_cast<std::uint32_t>(i)};
    if (held < k) {
      heap[held++] = entry;
      std::push_heap(heap, heap + held, better);
    } else if (better(entry, heap[0])) {
      std::pop_heap(heap, heap + held, better);
      heap[held - 1] = entry;
      std::push_heap(heap, heap + held, better);
    }
  }
  std::sort_heap(heap, heap + held, better);
  for (std::size_t i = 0; i < held; ++i) {
    out_index[i] = heap[i].index;
    out_value[i] = heap[i].value;
  }
}

}  // namespace jal::emu
