// Attention over a page, over an Arch of sixteen lanes; the same source for every vector instruction set.
//
// What it is not: compiled by itself. Scores are a GEMM whose weights are the queries and whose 16 tokens in vector
// lanes are the page's; values are accumulated with 16 dimensions in vector lanes, in token order.
// Invariant: bits of scalar/kernels_scalar.cpp.
#pragma once
#include "emulator/engines/simd/matrix_simd.hpp"
#include "emulator/engines/simd/vector_simd.hpp"

namespace jal::emu {

template <class A>
struct AttentionKernels {
  using V = typename A::V;
  using Dot = DotF32<A, WeightFormat::bf16, false>;

  static void page(const Queries& queries, const KvPage& page, const SoftmaxParts& out, float* scratch) {
    const FlushScope flush;
    const std::uint32_t blocks = block_count(queries.head_dim);
    std::uint32_t seen = queries.visible == nullptr ? page.tokens : 0;
    for (std::uint32_t r = 0; queries.visible != nullptr && r < queries.rows; ++r) {
      const std::uint32_t limit = visible(queries, page, r);
      if (limit > seen) seen = limit;
    }
    const std::uint32_t groups = (seen + kLanes - 1) / kLanes;
    const std::size_t score_stride = std::size_t{groups} * kLanes;
    const std::size_t value_stride = (queries.head_dim + kLanes - 1) / kLanes * kLanes;

    float* q = scratch;
    float* keys = q + std::size_t{queries.rows} * blocks * 32;
    float* values = keys + std::size_t{groups} * blocks * 32 * kLanes;
    float* scores = values + std::size_t{seen} * value_stride;
    float* stack = scores + queries.rows * score_stride;
    float* sums = stack + std::size_t{4} * A::kMaxRows * A::kTokenVectors * kLanes;

    spread_queries(queries, blocks, q);
    transpose_keys(page, seen, queries.head_dim, blocks, keys);
    widen_values(page, seen, queries.head_dim, value_stride, values);

    constexpr std::uint32_t kRows = A::kMaxRows;
    for (std::uint32_t row = 0; row < queries.rows; row += kRows) {
      const std::uint32_t rows = queries.rows - row < kRows ? queries.rows - row : kRows;
      const DecodedPanel panel{reinterpret_cast<const std::uint8_t*>(q + std::size_t{row} * blocks * 32),
                               std::size_t{blocks} * 128, blocks};
      for (std::uint32_t g = 0; g < groups; g += A::kTokenVectors) {
        const std::uint32_t some = groups - g < A::kTokenVectors ? groups - g : std::uint32_t{A::kTokenVectors};
        const std::uint8_t* x = reinterpret_cast<const std::uint8_t*>(keys + std::size_t{g} * blocks * 32 * kLanes);
        panel_rows<Dot>(rows, panel, x, std::size_t{blocks} * kLanes * 128, some, stack, sums);
        for (std::uint32_t t = 0; t < some; ++t) {
          for (std::uint32_t r = 0; r < rows; ++r) {
            A::store(scores + (row + r) * score_stride + (g + t) * kLanes,
                     A::mul(A::load(sums + (t * rows + r) * kLanes), A::set1(queries.scale)));
          }
        }
      }
    }
    for (std::uint32_t r = 0; r < queries.rows; ++r) {
      softmax_row(scores + r * score_stride, visible(queries, page, r), &out.m[r], &out.l[r]);
    }
    for (std::uint32_t row = 0; row < queries.rows; row += A::kValueRows) {
      weigh_values<A::kValueRows>(queries, page, out, row, scores, score_stride, values, value_stride);
    }
  }

  static void merge(const SoftmaxParts& left, const SoftmaxParts& right, std::uint32_t rows, std::uint32_t head_dim) {
    const float lowest = -__builtin_inff();
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
      left.l[r] = kernel::canonical(kernel::fma_f32(right.l[r], wr, left.l[r] * wl));
      for (std::uint32_t i = 0; i < head_dim; i += kLanes) {
        const std::size_t rest = head_dim - i < kLanes ? head_dim - i : kLanes;
        const V v = A::fma(A::load_n(other + i, rest), A::set1(wr), A::mul(A::load_n(o + i, rest), A::set1(wl)));
        A::store_n(o + i, A::select_nan(v, v), rest);
      }
    }
  }

 private:
  JAL_INLINE static std::uint32_t visible(const Queries& queries, const KvPage& page, std::uint32_t row) {
    if (queries.visible == nullptr || queries.visible[row] > page.tokens) return page.tokens;
    return queries.visible[row];
  }

  /// Queries as decoded weights: per block 16 odd elements, then 16 even ones.
  static void spread_queries(const Queries& queries, std::uint32_t blocks, float* out) {
    for (std::uint32_t r = 0; r < queries.rows; ++r) {
      const float* q = queries.q + r * queries.stride;
      for (std::uint32_t b = 0; b < blocks; ++b, out += 32) {
        const std::uint32_t n = queries.head_dim - b * 32 < 32 ? queries.head_dim - b * 32 : 32;
        alignas(64) float block[32] = {};
        std::memcpy(block, q + b * 32, n * sizeof(float));
        V even, odd;
        A::deinterleave(block, even, odd);
        A::store(out, odd);
        A::store(out + 16, even);
      }
    }
  }

  /// Keys as activations of 16 tokens: per block, per lane {odd: 16 tokens, even: 16 tokens}.
  static void transpose_keys(const KvPage& page, std::uint32_t tokens, std::uint32_t head_dim, std::uint32_t blocks,
                             float* out) {
    for (std::uint32_t begin = 0; begin < tokens; begin += kLanes, out += std::size_t{blocks} * 32 * kLanes) {
      for (std::uint32_t b = 0; b < blocks; ++b) {
        const std::uint32_t n = head_dim - b * 32 < 32 ? head_dim - b * 32 : 32;
        for (std::uint32_t half = 0; half < 2; ++half) {
          __m256 low[8];
          __m256 high[8];
          for (std::uint32_t t = 0; t < 8; ++t) {
            const std::uint32_t token = begin + half * 8 + t;
            alignas(32) std::uint16_t row[32];
            const std::uint16_t* key = row;
            if (token < tokens && n == 32) {
              key = page.keys + token * page.key_stride + b * 32;
            } else {
              std::memset(row, 0, sizeof row);
              if (token < tokens) std::memcpy(row, page.keys + token * page.key_stride + b * 32, n * 2);
            }
            low[t] = _mm256_loadu_ps(reinterpret_cast<const float*>(key));
            high[t] = _mm256_loadu_ps(reinterpret_cast<const float*>(key + 16));
          }
          store_columns(low, out + std::size_t{b} * kLanes * 32 + half * 8);
          store_columns(high, out + (std::size_t{b} * kLanes + 8) * 32 + half * 8);
        }
      }
    }
  }
  JAL_INLINE static void store_columns(const __m256* rows, float* out) {
    __m256 column[8];
    transpose_8x8(rows, column);
    for (std::uint32_t l = 0; l < 8; ++l) {
      const __m256i pairs = _mm256_castps_si256(column[l]);
      float* at = out + l * std::size_t{32};
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(at),
                          _mm256_and_si256(pairs, _mm256_set1_epi32(static_cast<int>(0xffff0000u))));
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(at + 16), _mm256_slli_epi32(pairs, 16));
    }
  }

  static void widen_values(const KvPage& page, std::uint32_t tokens, std::uint32_t head_dim, std::size_t stride,
                           float* out) {
    for (std::uint32_t t = 0; t < tokens; ++t) {
      const std::uint16_t* v = page.values + t * page.value_stride;
      float* row = out + t * stride;
      std::uint32_t i = 0;
      for (; i + kLanes <= head_dim; i += kLanes) A::store(row + i, A::load_bf16(v + i));
      if (i < head_dim) {
        alignas(32) std::uint16_t rest[kLanes] = {};
        std::memcpy(rest, v + i, (head_dim - i) * 2);
        A::store(row + i, A::load_bf16(rest));
      }
    }
  }

  /// Scores to probabilities in place (0 beyond `limit`), their maximum and their sum.
  JAL_INLINE static void softmax_row(float* score, std::uint32_t limit, float* out_m, float* out_l) {
    const float lowest = -__builtin_inff();
    V top = A::set1(lowest);
    for (std::uint32_t t = 0; t < limit; t += kLanes) {
      top = A::max_gt(A::keep_below(A::load(score + t), limit - t, A::set1(lowest)), top);
    }
    const float m = A::fold_max(top);
    const V reference = A::set1(m == lowest ? 0.0f : m);
    V lane = A::zero();
    for (std::uint32_t t = 0; t < limit; t += kLanes) {
      const V p = A::keep_below(exp_lanes<A>(A::sub(A::load(score + t), reference)), limit - t, A::zero());
      A::store(score + t, p);
      lane = A::add(lane, p);
    }
    *out_m = m;
    *out_l = kernel::canonical(A::fold_sum(lane));
  }

  /// o of up to R rows: fused multiply-adds in token order. Tokens that all rows see are taken together.
  template <int R>
  static void weigh_values(const Queries& queries, const KvPage& page, const SoftmaxParts& out, std::uint32_t row,
                           const float* scores, std::size_t score_stride, const float* values,
                           std::size_t value_stride) {
    constexpr int kD = A::kValueVectors;
    std::uint32_t limit[R];
    std::uint32_t together = ~0u;
    const float* p[R];
    JAL_UNROLL
    for (int r = 0; r < R; ++r) {
      // Rows beyond the last repeat it; their result is not stored.
      const std::uint32_t actual =
          row + static_cast<std::uint32_t>(r) < queries.rows ? row + static_cast<std::uint32_t>(r) : queries.rows - 1;
      limit[r] = visible(queries, page, actual);
      p[r] = scores + actual * score_stride;
      if (limit[r] < together) together = limit[r];
    }
    for (std::size_t d = 0; d < value_stride; d += kLanes * kD) {
      const int vectors = value_stride - d < kLanes * kD ? static_cast<int>((value_stride - d) / kLanes) : kD;
      V acc[R][kD];
      JAL_UNROLL
      for (int r = 0; r < R; ++r) {
        JAL_UNROLL
        for (int v = 0; v < kD; ++v) acc[r][v] = A::zero();
      }
      if (vectors == kD) {
        for (std::uint32_t t = 0; t < together; ++t) {
          const float* value = values + t * value_stride + d;
          JAL_UNROLL
          for (int r = 0; r < R; ++r) {
            const V weight = A::broadcast(p[r] + t);
            JAL_UNROLL
            for (int v = 0; v < kD; ++v) acc[r][v] = A::fma(weight, A::load(value + v * 16), acc[r][v]);
          }
        }
      }
      JAL_UNROLL
      for (int r = 0; r < R; ++r) {
        if (row + static_cast<std::uint32_t>(r) >= queries.rows) continue;
        float* o = out.o + (row + static_cast<std::uint32_t>(r)) * out.o_stride + d;
        JAL_UNROLL
        for (int v = 0; v < kD; ++v) {
          if (v >= vectors) continue;
          V sum = acc[r][v];
          for (std::uint32_t t = vectors == kD ? together : 0; t < limit[r]; ++t) {
            sum = A::fma(A::broadcast(p[r] + t), A::load(values + t * value_stride + d + v * 16), sum);
          }
          const std::size_t rest = queries.head_dim - d - static_cast<std::size_t>(v) * kLanes;
          A::store_n(o + v * 16, A::select_nan(sum, sum), rest < kLanes ? rest : kLanes);
        }
      }
    }
  }
};

}  // namespace jal::emu
