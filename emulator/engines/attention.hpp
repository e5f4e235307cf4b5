// Attention over one page of BF16 keys and values, and the merge of partial softmax results.
//
// What it is not: a cache. A page is two arrays of `tokens` rows; who owns them, and where, is the caller's matter.
// Invariant: a page's (m, l, o) depends on its queries and its visible tokens only, so pages may be computed anywhere
// and merged in the bracket over their index: any distribution gives the same bits.
// Contract: docs/engine_numerics.md, "Attention".
#pragma once
#include <cstddef>
#include <cstdint>

namespace jal::emu {

/// One page of one KV head. Rows are head_dim BF16 values; strides in elements.
struct KvPage {
  const std::uint16_t* keys = nullptr;
  const std::uint16_t* values = nullptr;
  std::size_t key_stride = 0;
  std::size_t value_stride = 0;
  std::uint32_t tokens = 0;
};

/// The queries that share a KV head: `rows` = query tokens x query heads of the group, each head_dim FP32 values.
struct Queries {
  const float* q = nullptr;
  std::size_t stride = 0;  ///< floats between rows
  std::uint32_t rows = 0;
  std::uint32_t head_dim = 0;              ///< 1..512
  const std::uint32_t* visible = nullptr;  ///< per row: sees tokens [0, visible[row]) of the page; null = all tokens
  float scale = 1.0f;                      ///< multiplies each score
};

/// Partial softmax results, one triple a row: o is not yet divided by l. No visible token: m = -inf, l = 0, o = 0.
struct SoftmaxParts {
  float* m = nullptr;
  float* l = nullptr;
  float* o = nullptr;
  std::size_t o_stride = 0;  ///< floats between rows of o
};

/// Computes out for every query row over the page. out overlaps no input. Any thread; thread-owned scratch.
void attention_page(const Queries& queries, const KvPage& page, const SoftmaxParts& out);

/// left = merge(left, right) for `rows` rows: m = max, both sides scaled by exp(m_side - m), summed.
/// A side with m = -inf and l = 0 contributes nothing: the result is the other side, unchanged.
void softmax_merge(const SoftmaxParts& left, const SoftmaxParts& right, std::uint32_t rows, std::uint32_t head_dim);

/// Merges parts[0..n) in the bracket over their index into parts[0]; the others are used as scratch. A part whose m
/// is null is an empty leaf. When every part is empty parts[0] must not be null: it gets the empty result.
void softmax_merge_tree(const SoftmaxParts* parts, std::uint32_t n, std::uint32_t rows, std::uint32_t head_dim);

/// y[row * y_stride + i] = o / l, one correctly rounded division each; l = 0 gives 0.
void softmax_finish(const SoftmaxParts& parts, std::uint32_t rows, std::uint32_t head_dim, float* y,
                    std::size_t y_stride);

}  // namespace jal::emu
