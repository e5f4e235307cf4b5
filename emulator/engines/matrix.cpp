// Operands, checks and the walk over tokens and row chunks; the arithmetic is in the kernel tables.
#include "emulator/engines/matrix.hpp"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>

#include "emulator/engines/kernels.hpp"
#include "emulator/engines/tile_view.hpp"
#include "jal/kernel/math.hpp"

namespace jal::emu {
namespace {

constexpr std::uint32_t kOperandMagic = 0x4f50524eu;
constexpr std::size_t kGemmLookAhead = 4096;

/// Tokens are taken in groups of 16; the rest becomes one padded group when it is large enough, else single tokens.
std::uint32_t group_count(std::uint32_t m, std::uint32_t threshold) {
  if (threshold > kLanes) return 0;
  return m / kLanes + (m % kLanes >= threshold ? 1 : 0);
}

struct Free {
  void operator()(float* p) const { std::free(p); }
};
struct Scratch {
  std::unique_ptr<float, Free> buffer;
  std::size_t floats = 0;
};
thread_local Scratch scratch;

}  // namespace

float* thread_scratch(std::size_t floats) {
  if (floats > scratch.floats) {
    const std::size_t bytes = round_up_64(floats * sizeof(float) + floats / 4 * sizeof(float));
    scratch.buffer.reset(static_cast<float*>(std::aligned_alloc(64, bytes)));
    if (!scratch.buffer) engine_defect("scratch allocation failed, bytes", bytes, 0);
    scratch.floats = bytes / sizeof(float);
  }
  return scratch.buffer.get();
}

void engine_defect(const char* what, std::uint64_t got, std::uint64_t expected) {
  std::fprintf(stderr, "jal engines: defect of the caller: %s: got %llu, expected %llu\n", what,
               static_cast<unsigned long long>(got), static_cast<unsigned long long>(expected));
  std::abort();
}

const char* activation_format_name(ActivationFormat format) { return format == ActivationFormat::f32 ? "f32" : "bf16"; }

bool gemm_supported(WeightFormat weights, ActivationFormat activations) {
  return weights == WeightFormat::bf16 || activations == ActivationFormat::bf16;
}

std::size_t operand_bytes(ActivationFormat, std::uint32_t k, std::uint32_t m) {
  // The largest form under any instruction set: FP32, the last group padded.
  const std::size_t tokens = (std::size_t{m} + kLanes - 1) / kLanes * kLanes;
  return sizeof(OperandHeader) + tokens * block_count(k) * operand_block_bytes(OperandLayout::plain_f32);
}

const Operand* prepare_operand(ActivationFormat format, const float* x, std::size_t x_stride, std::uint32_t k,
                               std::uint32_t m, void* out) {
  const KernelTable& table = kernels();
  OperandHeader header{};
  header.magic = kOperandMagic;
  header.format = format;
  header.layout = format == ActivationFormat::f32 ? OperandLayout::plain_f32 : table.bf16_layout;
  header.k = k;
  header.m = m;
  header.blocks = block_count(k);
  header.groups = group_count(m, table.group_threshold);
  header.singles = header.groups * kLanes >= m ? 0 : m - header.groups * kLanes;
  std::memcpy(out, &header, sizeof header);

  std::uint8_t* at = static_cast<std::uint8_t*>(out) + sizeof header;
  const std::size_t token_bytes = header.blocks * operand_block_bytes(header.layout);
  for (std::uint32_t s = 0; s < header.singles; ++s, at += token_bytes) {
    table.prepare_single(header.layout, x + (m - header.singles + s) * x_stride, k, header.blocks, at);
  }
  for (std::uint32_t g = 0; g < header.groups; ++g, at += token_bytes * kLanes) {
    const std::uint32_t begin = g * kLanes;
    const std::uint32_t tokens = m - begin < kLanes ? m - begin : kLanes;
    table.prepare_group(header.layout, x + begin * x_stride, x_stride, tokens, k, header.blocks, at);
  }
  return static_cast<const Operand*>(out);
}

void gemm(WeightFormat weights, ActivationFormat activations, const void* tile, std::uint32_t rows, std::uint32_t k,
          const Operand* operand, std::uint32_t m, float* y, std::size_t y_stride, std::uint32_t panels,
          const void* next_tile) {
  if (rows == 0 || m == 0) return;
  if (!gemm_supported(weights, activations)) {
    engine_defect("weight format has no such activation format", static_cast<std::uint64_t>(activations),
                  static_cast<std::uint64_t>(ActivationFormat::bf16));
  }
  if (panels != 1 && panels != 2 && panels != 4 && panels != 8) engine_defect("panels", panels, kPanels);
  const KernelTable& table = kernels();
  const OperandHeader& header = *reinterpret_cast<const OperandHeader*>(operand);
  if (header.magic != kOperandMagic) engine_defect("operand magic", header.magic, kOperandMagic);
  if (header.k != k) engine_defect("operand k", header.k, k);
  if (header.m != m) engine_defect("operand m", header.m, m);
  const OperandLayout layout = activations == ActivationFormat::f32 ? OperandLayout::plain_f32 : table.bf16_layout;
  if (header.layout != layout) {
    engine_defect("operand layout (format, or instruction set since it was prepared)",
                  static_cast<std::uint64_t>(header.layout), static_cast<std::uint64_t>(layout));
  }

  // The usual number as a constant: the halvings then are straight code.
  const PanelSplit split =
      panels == kPanels ? split_panels(header.blocks, kPanels) : split_panels(header.blocks, panels);
  const TileView whole = tile_view(weights, tile, rows, k);
  const auto* next = static_cast<const std::uint8_t*>(next_tile);
  const std::size_t token_bytes = header.blocks * operand_block_bytes(layout);
  const std::uint8_t* x = reinterpret_cast<const std::uint8_t*>(operand) + sizeof(OperandHeader);
  if (header.singles != 0) {
    float* sums = thread_scratch(kGemvScratchFloats);
    const std::uint32_t first = m - header.singles;
    for (std::uint32_t row = 0; row < rows; row += kGemvRowChunk) {
      const std::uint32_t count = rows - row < kGemvRowChunk ? rows - row : kGemvRowChunk;
      const std::uint8_t* codes = whole.codes + row * whole.row_bytes;
      const std::uint8_t* scales = whole.scales + std::size_t{row} * whole.blocks;
      const std::uint8_t* next_codes = codes + count * whole.row_bytes;
      const std::uint8_t* next_scales = scales + std::size_t{count} * whole.blocks;
      if (row + count == rows) {
        next_codes = next;
        next_scales = next == nullptr ? nullptr : next + (whole.scales - whole.codes);
      }
      // Not a copy of `whole`, part by part overwritten: reading what was just stored in narrower words stalls the CPU,
      // for a fifth of a GEMV's fixed cost.
      const TileView part{whole.format, codes, scales, whole.row_bytes, count, whole.blocks, next_codes, next_scales};
      for (std::uint32_t s = 0; s < header.singles; ++s) {
        table.gemv(part, layout, x + s * token_bytes, split, y + (first + s) * y_stride + row, sums);
      }
    }
  }
  x += header.singles * token_bytes;
  float* partial = header.groups != 0 ? thread_scratch(gemm_scratch_floats(header.blocks)) : nullptr;
  // A GEMM takes long enough for the CPU's own prefetcher, which only has to be told where.
  if (header.groups != 0 && next != nullptr) {
    for (std::size_t at = 0; at < kGemmLookAhead && at < whole.row_bytes * rows; at += 64) {
      __builtin_prefetch(next + at, 0, 2);
    }
  }
  for (std::uint32_t g = 0; g < header.groups; g += kGroupChunk) {
    const std::uint32_t groups = header.groups - g < kGroupChunk ? header.groups - g : kGroupChunk;
    const std::uint32_t begin = g * kLanes;
    const std::uint32_t tokens = m - begin < groups * kLanes ? m - begin : groups * kLanes;
    table.gemm(whole, layout, x + g * token_bytes * kLanes, groups, tokens, split, y + begin * y_stride, y_stride,
               partial);
  }
}

void bracket_sum(const float* const* part, std::uint32_t parts, std::uint32_t n, float* out) {
  // Recursion depth is log2(parts); a node's value is written over the first of its leaves' places in `value`.
  struct Node {
    static float sum(const float* const* leaf, std::uint32_t count, std::uint32_t i, bool* empty) {
      if (count == 0) return 0.0f;
      if (count == 1) {
        *empty = leaf[0] == nullptr;
        return *empty ? 0.0f : leaf[0][i];
      }
      const std::uint32_t left_count = bracket_left(count);
      bool left_empty = true;
      bool right_empty = true;
      const float left = sum(leaf, left_count, i, &left_empty);
      const float right = sum(leaf + left_count, count - left_count, i, &right_empty);
      *empty = left_empty && right_empty;
      if (left_empty) return right;
      if (right_empty) return left;
      return left + right;
    }
  };
  for (std::uint32_t i = 0; i < n; ++i) {
    bool empty = true;
    out[i] = kernel::canonical(Node::sum(part, parts, i, &empty));
  }
}

}  // namespace jal::emu
