// The reduction bracket: the one order in which partial results are added, whoever computed them.
//
// What it is not: a collective. It names the tree; engines, kernels and collectives walk it.
// Invariant: a node of n leaves has ceil(n/2) leaves on its left and floor(n/2) on its right; an empty side contributes
// nothing, so the node's value is its other side's. Any party that owns a subtree can evaluate it alone.
// Contract: docs/engine_numerics.md, "The bracket".
#pragma once
#include <cstdint>

namespace jal::emu {

/// Elements of the reduction dimension that share one MX scale, and the unit of every K split.
inline constexpr std::uint32_t kBlockElements = 32;
/// Panels of a whole K dimension. A chip of n (1, 2, 4 or 8) in tensor parallel owns kPanels / n consecutive ones.
inline constexpr std::uint32_t kPanels = 8;

/// 32-element blocks of a K dimension, the last one padded with zeros.
constexpr std::uint32_t block_count(std::uint32_t k) { return (k + kBlockElements - 1) / kBlockElements; }

/// Panel p holds blocks [first[p], first[p + 1]); panels may be empty when there are fewer blocks than panels.
/// The sizes of two panels differ by at most one block.
struct PanelSplit {
  std::uint32_t count = 0;
  std::uint32_t first[kPanels + 1] = {};
};

/// Splits `blocks` blocks in `panels` (1, 2, 4 or 8) panels by halving.
constexpr PanelSplit split_panels(std::uint32_t blocks, std::uint32_t panels = kPanels) {
  PanelSplit split;
  split.count = panels;
  split.first[panels] = blocks;
  for (std::uint32_t width = panels; width > 1; width /= 2) {
    for (std::uint32_t p = 0; p < panels; p += width) {
      const std::uint32_t end = p + width == panels ? blocks : split.first[p + width];
      split.first[p + width / 2] = split.first[p] + (end - split.first[p] + 1) / 2;
    }
  }
  return split;
}

/// Elements [begin, end) of a K dimension.
struct ElementRange {
  std::uint32_t begin = 0;
  std::uint32_t end = 0;
};

/// The elements of panels [p0, p1) of a whole K dimension of k elements; empty when those panels are.
/// Splitting the range again in p1 - p0 panels gives the same panels when [p0, p1) is a subtree (width a power of two,
/// p0 a multiple of it), which is what makes tensor-parallel splits of K exact.
constexpr ElementRange panel_range(std::uint32_t k, std::uint32_t p0, std::uint32_t p1) {
  const PanelSplit split = split_panels(block_count(k));
  const std::uint32_t begin = split.first[p0] * kBlockElements;
  const std::uint32_t end = split.first[p1] * kBlockElements;
  return {begin < k ? begin : k, end < k ? end : k};
}

/// Left share of a node of n leaves.
constexpr std::uint32_t bracket_left(std::uint32_t n) { return (n + 1) / 2; }

/// out[i] = bracket sum over j < parts of part[j][i], i < n, each addition rounded to FP32 (denormals kept), NaN made
/// canonical. part[j] == nullptr is an empty leaf. No part at all gives +0. `out` may be one of the parts.
void bracket_sum(const float* const* part, std::uint32_t parts, std::uint32_t n, float* out);

}  // namespace jal::emu
