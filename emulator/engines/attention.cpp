// Scratch, the merge tree and the final division around the attention kernels.
#include "emulator/engines/attention.hpp"

#include <cstring>

#include "emulator/engines/kernels.hpp"
#include "jal/kernel/math.hpp"

namespace jal::emu {
namespace {

constexpr std::uint32_t kMaxHeadDim = 512;

void copy_parts(const SoftmaxParts& from, const SoftmaxParts& to, std::uint32_t rows, std::uint32_t head_dim) {
  std::memcpy(to.m, from.m, rows * sizeof(float));
  std::memcpy(to.l, from.l, rows * sizeof(float));
  for (std::uint32_t r = 0; r < rows; ++r) {
    std::memcpy(to.o + r * to.o_stride, from.o + r * from.o_stride, head_dim * sizeof(float));
  }
}

/// Merges leaves [begin, begin + n) and returns the index of the part that holds the result; n when all are empty.
std::uint32_t merge_node(const SoftmaxParts* parts, std::uint32_t n, std::uint32_t rows, std::uint32_t head_dim) {
  if (n == 0) return 0;
  if (n == 1) return parts[0].m != nullptr ? 0 : 1;
  const std::uint32_t left_count = bracket_left(n);
  const std::uint32_t right_count = n - left_count;
  const std::uint32_t left = merge_node(parts, left_count, rows, head_dim);
  const std::uint32_t right = merge_node(parts + left_count, right_count, rows, head_dim);
  if (right == right_count) return left == left_count ? n : left;
  if (left == left_count) return left_count + right;
  softmax_merge(parts[left], parts[left_count + right], rows, head_dim);
  return left;
}

}  // namespace

void attention_page(const Queries& queries, const KvPage& page, const SoftmaxParts& out) {
  if (queries.rows == 0) return;
  if (queries.head_dim == 0 || queries.head_dim > kMaxHeadDim) {
    engine_defect("attention head_dim", queries.head_dim, kMaxHeadDim);
  }
  kernels().attention_page(queries, page, out,
                           thread_scratch(attention_scratch_floats(queries.rows, queries.head_dim, page.tokens)));
}

void softmax_merge(const SoftmaxParts& left, const SoftmaxParts& right, std::uint32_t rows, std::uint32_t head_dim) {
  kernels().softmax_merge(left, right, rows, head_dim);
}

void softmax_merge_tree(const SoftmaxParts* parts, std::uint32_t n, std::uint32_t rows, std::uint32_t head_dim) {
  if (n == 0) return;
  const std::uint32_t result = merge_node(parts, n, rows, head_dim);
  if (result == n) {
    for (std::uint32_t r = 0; r < rows; ++r) {
      parts[0].m[r] = -__builtin_inff();
      parts[0].l[r] = 0.0f;
      std::memset(parts[0].o + r * parts[0].o_stride, 0, head_dim * sizeof(float));
    }
  } else if (result != 0 && parts[0].m != nullptr) {
    copy_parts(parts[result], parts[0], rows, head_dim);
  }
}

void softmax_finish(const SoftmaxParts& parts, std::uint32_t rows, std::uint32_t head_dim, float* y,
                    std::size_t y_stride) {
  const KernelTable& table = kernels();
  for (std::uint32_t r = 0; r < rows; ++r) {
    if (parts.l[r] == 0.0f) {
      std::memset(y + r * y_stride, 0, head_dim * sizeof(float));
    } else {
      table.div_scalar(parts.o + r * parts.o_stride, parts.l[r], y + r * y_stride, head_dim);
    }
  }
}

}  // namespace jal::emu
