// The scalar kernels: the definition of engine numerics v1 written down in loops, without any control register.
//
// What it is not: shared code with the vector kernels; tests compare the two.
// Contract: docs/engine_numerics.md, section by section.
#include <cmath>
#include <cstring>
#include <limits>

#include "emulator/engines/kernels.hpp"
#include "emulator/engines/quantize.hpp"
#include "emulator/engines/scalar/soft_float.hpp"
#include "emulator/engines/weights.hpp"

namespace jal::emu {
namespace {

using kernel::canonical;

/// A BF16 activation as it is held: rounded, denormals zero, times 2^8; 2^120 and above become infinite thereby.
float scaled_bf16(float x) { return soft::mul(kernel::f32_from_bf16(kernel::bf16_from_f32(x)), 256.0f); }

/// The scalar table's operands hold single tokens only, in natural lane order.
void prepare_single(OperandLayout layout, const float* x, std::uint32_t k, std::uint32_t blocks, void* out) {
  float* values = static_cast<float*>(out);
  for (std::uint32_t i = 0; i < blocks * kBlockElements; ++i) {
    const std::size_t at = std::size_t{i / 32} * 32 + (i % 2 != 0 ? 0 : 16) + i % 32 / 2;
    values[at] = i >= k ? 0.0f : layout == OperandLayout::plain_f32 ? x[i] : scaled_bf16(x[i]);
  }
}

void prepare_group(OperandLayout, const float*, std::size_t, std::uint32_t, std::uint32_t, std::uint32_t, void*) {
  engine_defect("scalar kernels take no token groups", 1, 0);
}

/// Element e of block b of a row as the multiplier sees it: a BF16 value, or w' = P * 2^(scale - 127) * 2^-8.
float weight_element(const TileView& tile, std::uint32_t row, std::uint32_t block, std::uint32_t e) {
  const std::uint8_t* codes = tile.codes + row * tile.row_bytes + block * block_code_bytes(tile.format);
  if (tile.format == WeightFormat::bf16) {
    std::uint16_t value = 0;
    std::memcpy(&value, codes + e * 2, 2);
    return kernel::f32_from_bf16(value);
  }
  float element = 0;
  if (tile.format == WeightFormat::mxfp8) {
    element = f32_from_e4m3(codes[e / 2 + e % 2 * 16]);
  } else {
    const unsigned pair = codes[(e & 7u) + (e >> 4) * 8];
    element = f32_from_e2m1(static_cast<std::uint8_t>((pair >> ((e & 8u) != 0 ? 4 : 0)) & 15u));
  }
  const float scale = f32_from_e8m0(tile.scales[std::size_t{row} * tile.blocks + block]);
  return soft::round_flush(static_cast<double>(element) * static_cast<double>(scale) * 0x1p-8);
}

/// Element e of block b of a single token: FP32, or BF16 times 2^8; for BF16 weights without the factor.
float activation_element(const TileView& tile, OperandLayout layout, const void* x, std::uint32_t block,
                         std::uint32_t e) {
  const float value = static_cast<const float*>(x)[std::size_t{block} * 32 + (e % 2 != 0 ? 0 : 16) + e / 2];
  const bool unscale = layout == OperandLayout::scaled_f32 && tile.format == WeightFormat::bf16;
  return unscale ? value * 0x1p-8f : value;
}

float fold_sum(const float* lane, float (*add)(float, float)) {
  float v[kLanes];
  std::memcpy(v, lane, sizeof v);
  for (std::uint32_t width = 8; width >= 1; width /= 2) {
    for (std::uint32_t l = 0; l < width; ++l) v[l] = add(v[l], v[l + width]);
  }
  return v[0];
}

float plain_add(float a, float b) { return a + b; }

float panel_sum(const TileView& tile, std::uint32_t row, OperandLayout layout, const void* x, std::uint32_t first,
                std::uint32_t last) {
  float acc[kLanes] = {};
  for (std::uint32_t b = first; b < last; ++b) {
    for (std::uint32_t l = 0; l < kLanes; ++l) {
      const float odd =
          soft::fma(weight_element(tile, row, b, 2 * l + 1), activation_element(tile, layout, x, b, 2 * l + 1), acc[l]);
      acc[l] = soft::fma(weight_element(tile, row, b, 2 * l), activation_element(tile, layout, x, b, 2 * l), odd);
    }
  }
  return fold_sum(acc, soft::add);
}

void gemv(const TileView& tile, OperandLayout layout, const void* x, const PanelSplit& split, float* y, float*) {
  for (std::uint32_t row = 0; row < tile.rows; ++row) {
    float sums[kPanels];
    const float* parts[kPanels];
    for (std::uint32_t p = 0; p < split.count; ++p) {
      sums[p] = panel_sum(tile, row, layout, x, split.first[p], split.first[p + 1]);
      parts[p] = split.first[p] == split.first[p + 1] ? nullptr : &sums[p];
    }
    bracket_sum(parts, split.count, 1, &y[row]);
  }
}

void gemm(const TileView&, OperandLayout, const void*, std::uint32_t, std::uint32_t, const PanelSplit&, float*,
          std::size_t, float*) {
  engine_defect("scalar kernels take no token groups", 1, 0);
}

void attention_page(const Queries& queries, const KvPage& page, const SoftmaxParts& out, float* scores) {
  const std::uint32_t d = queries.head_dim;
  for (std::uint32_t r = 0; r < queries.rows; ++r) {
    const float* q = queries.q + r * queries.stride;
    std::uint32_t visible = queries.visible != nullptr ? queries.visible[r] : page.tokens;
    if (visible > page.tokens) visible = page.tokens;
    float m = -std::numeric_limits<float>::infinity();
    for (std::uint32_t t = 0; t < visible; ++t) {
      const std::uint16_t* key = page.keys + t * page.key_stride;
      float acc[kLanes] = {};
      for (std::uint32_t b = 0; b < block_count(d); ++b) {
        for (std::uint32_t l = 0; l < kLanes; ++l) {
          const std::uint32_t i = b * 32 + 2 * l;
          const float k1 = i + 1 < d ? kernel::f32_from_bf16(key[i + 1]) : 0.0f;
          const float q1 = i + 1 < d ? q[i + 1] : 0.0f;
          const float k0 = i < d ? kernel::f32_from_bf16(key[i]) : 0.0f;
          const float q0 = i < d ? q[i] : 0.0f;
          acc[l] = soft::fma(k0, q0, soft::fma(k1, q1, acc[l]));
        }
      }
      scores[t] = soft::mul(fold_sum(acc, soft::add), queries.scale);
      if (scores[t] > m) m = scores[t];
    }
    const float reference = m == -std::numeric_limits<float>::infinity() ? 0.0f : m;
    float lane[kLanes] = {};
    for (std::uint32_t t = 0; t < visible; ++t) {
      scores[t] = kernel::exp_f32(soft::sub(scores[t], reference));
      lane[t % kLanes] = soft::add(lane[t % kLanes], scores[t]);
    }
    out.m[r] = m;
    out.l[r] = canonical(fold_sum(lane, soft::add));
    float* o = out.o + r * out.o_stride;
    for (std::uint32_t i = 0; i < d; ++i) {
      float acc = 0.0f;
      for (std::uint32_t t = 0; t < visible; ++t) {
        acc = soft::fma(scores[t], kernel::f32_from_bf16(page.values[t * page.value_stride + i]), acc);
      }
      o[i] = canonical(acc);
    }
  }
}

void softmax_merge_rows(const SoftmaxParts& left, const SoftmaxParts& right, std::uint32_t rows,
                        std::uint32_t head_dim) {
  const float lowest = -std::numeric_limits<float>::infinity();
  for (std::uint32_t r = 0; r < rows; ++r) {
    float* o = left.o + r * left.o_stride;
    const float* other = right.o + r * right.o_stride;
    if (right.m[r] == lowest && right.l[r] == 0.0f) continue;
    if (left.m[r] == lowest && left.l[r] == 0.0f) {
      left.m[r] = right.m[r];
      left.l[r] = right.l[r];
      std::memcpy(o, other, head_dim * sizeof(float));
      continue;
    }
    const float m = right.m[r] > left.m[r] ? right.m[r] : left.m[r];
    const float reference = m == lowest ? 0.0f : m;
    const float wl = kernel::exp_f32(left.m[r] - reference);
    const float wr = kernel::exp_f32(right.m[r] - reference);
    left.m[r] = m;
    left.l[r] = canonical(kernel::fma_f32(right.l[r], wr, left.l[r] * wl));
    for (std::uint32_t i = 0; i < head_dim; ++i) o[i] = canonical(kernel::fma_f32(other[i], wr, o[i] * wl));
  }
}

template <class F>
void map(float* out, std::size_t n, F f) {
  for (std::size_t i = 0; i < n; ++i) out[i] = canonical(f(i));
}

void add(const float* a, const float* b, float* out, std::size_t n) {
  map(out, n, [&](std::size_t i) { return a[i] + b[i]; });
}
void sub(const float* a, const float* b, float* out, std::size_t n) {
  map(out, n, [&](std::size_t i) { return a[i] - b[i]; });
}
void mul(const float* a, const float* b, float* out, std::size_t n) {
  map(out, n, [&](std::size_t i) { return a[i] * b[i]; });
}
void fma(const float* a, const float* b, const float* c, float* out, std::size_t n) {
  map(out, n, [&](std::size_t i) { return kernel::fma_f32(a[i], b[i], c[i]); });
}
void axpy(float alpha, const float* x, const float* y, float* out, std::size_t n) {
  map(out, n, [&](std::size_t i) { return kernel::fma_f32(alpha, x[i], y[i]); });
}
void scale(float alpha, const float* x, float* out, std::size_t n) {
  map(out, n, [&](std::size_t i) { return alpha * x[i]; });
}
void div_scalar(const float* x, float divisor, float* out, std::size_t n) {
  map(out, n, [&](std::size_t i) { return x[i] / divisor; });
}
void exp(const float* x, float* out, std::size_t n) {
  map(out, n, [&](std::size_t i) { return kernel::exp_f32(x[i]); });
}
void exp_minus(const float* x, float b, float* out, std::size_t n) {
  map(out, n, [&](std::size_t i) { return kernel::exp_f32(x[i] - b); });
}
void silu(const float* x, float* out, std::size_t n) {
  map(out, n, [&](std::size_t i) { return kernel::silu_f32(x[i]); });
}
void swiglu(const float* gate, const float* up, float* out, std::size_t n) {
  map(out, n, [&](std::size_t i) { return kernel::silu_f32(gate[i]) * up[i]; });
}
void scale_mul(const float* x, float r, const float* w, float* out, std::size_t n) {
  map(out, n, [&](std::size_t i) { return x[i] * r * w[i]; });
}
float sum(const float* x, std::size_t n) {
  float lane[kLanes] = {};
  for (std::size_t i = 0; i < n; ++i) lane[i % kLanes] += x[i];
  return canonical(fold_sum(lane, plain_add));
}
float sum_squares(const float* x, std::size_t n) {
  float lane[kLanes] = {};
  for (std::size_t i = 0; i < n; ++i) lane[i % kLanes] = kernel::fma_f32(x[i], x[i], lane[i % kLanes]);
  return canonical(fold_sum(lane, plain_add));
}
float max(const float* x, std::size_t n) {
  float lane[kLanes];
  for (float& v : lane) v = -std::numeric_limits<float>::infinity();
  for (std::size_t i = 0; i < n; ++i) {
    if (x[i] > lane[i % kLanes]) lane[i % kLanes] = x[i];
  }
  for (std::uint32_t width = 8; width >= 1; width /= 2) {
    for (std::uint32_t l = 0; l < width; ++l) lane[l] = lane[l + width] > lane[l] ? lane[l + width] : lane[l];
  }
  return lane[0];
}
void rotate(float x0, float x1, float c, float s, float* y0, float* y1) {
  *y0 = canonical(kernel::fma_f32(x0, c, -(x1 * s)));
  *y1 = canonical(kernel::fma_f32(x1, c, x0 * s));
}
void rope_pairs(const float* x, const float* c, const float* s, float* out, std::size_t pairs) {
  for (std::size_t i = 0; i < pairs; ++i) rotate(x[2 * i], x[2 * i + 1], c[i], s[i], &out[2 * i], &out[2 * i + 1]);
}
void rope_halves(const float* x, const float* c, const float* s, float* out, std::size_t pairs) {
  for (std::size_t i = 0; i < pairs; ++i) rotate(x[i], x[i + pairs], c[i], s[i], &out[i], &out[i + pairs]);
}
void bf16_from_f32(const float* x, std::uint16_t* out, std::size_t n) {
  for (std::size_t i = 0; i < n; ++i) out[i] = kernel::bf16_from_f32(x[i]);
}
void f32_from_bf16(const std::uint16_t* x, float* out, std::size_t n) {
  for (std::size_t i = 0; i < n; ++i) out[i] = kernel::f32_from_bf16(x[i]);
}

}  // namespace

const KernelTable kScalarKernels = {Isa::scalar,
                                    OperandLayout::scaled_f32,
                                    kLanes + 1,
                                    prepare_single,
                                    prepare_group,
                                    gemv,
                                    gemm,
                                    attention_page,
                                    softmax_merge_rows,
                                    add,
                                    sub,
                                    mul,
                                    fma,
                                    axpy,
                                    scale,
                                    div_scalar,
                                    exp,
                                    exp_minus,
                                    silu,
                                    swiglu,
                                    scale_mul,
                                    sum,
                                    sum_squares,
                                    max,
                                    rope_pairs,
                                    rope_halves,
                                    bf16_from_f32,
                                    f32_from_bf16};

}  // namespace jal::emu
