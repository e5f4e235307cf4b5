// The table of kernels that one instruction set provides, and the views they work on. Internal to the engines.
//
// What it is not: an interface for others; they include matrix.hpp, attention.hpp and vector.hpp.
// Invariant: two tables differ in speed only. Kernels check nothing: matrix.cpp and its siblings have checked.
#pragma once
#include <cstddef>
#include <cstdint>

#include "emulator/engines/attention.hpp"
#include "emulator/engines/bracket.hpp"
#include "emulator/engines/isa.hpp"
#include "emulator/engines/matrix.hpp"

namespace jal::emu {

/// A weight tile taken apart: row r has its codes at codes + r * row_bytes and its scales at scales + r * blocks.
struct TileView {
  WeightFormat format;
  const std::uint8_t* codes;
  const std::uint8_t* scales;
  std::size_t row_bytes;
  std::uint32_t rows;
  std::uint32_t blocks;
  /// Codes and scales of the same shape that are likely to be read after these rows: a GEMV lets them come from memory
  /// meanwhile. Never dereferenced. nullptr: what lies behind.
  const std::uint8_t* next_codes = nullptr;
  const std::uint8_t* next_scales = nullptr;
};

/// Bytes of one block's codes.
constexpr std::size_t block_code_bytes(WeightFormat format) {
  return format == WeightFormat::bf16 ? 64 : format == WeightFormat::mxfp8 ? 32 : 16;
}

/// How an operand lies in memory. BF16 activations are held times 2^8 (mx_tables.hpp), as FP32 or as BF16 pairs;
/// `zipped` has the lanes of a single token in the order of zipped_position().
enum class OperandLayout : std::uint32_t { plain_f32, scaled_f32, scaled_f32_zipped, scaled_pairs_zipped };

/// Where lane l of a single token lies when zipped: 0 1 8 9 2 3 10 11 4 5 12 13 6 7 14 15. AVX-512 decodes MXFP4 in
/// this order with one instruction less.
constexpr std::uint32_t zipped_position(std::uint32_t l) { return (l & 7u) / 2 * 4 + (l & 1u) + (l >> 3) * 2; }

/// Header of an operand; `singles` tokens follow in GEMV order, then `groups` groups of 16 tokens in GEMM order.
/// FP32: single token = per block {16 odd, 16 even}; group = per block, per lane {odd: 16 tokens, even: 16 tokens}.
/// BF16 pairs: single token = per block 16 x {even, odd}; group = per block, per lane 16 tokens x {even, odd}.
struct OperandHeader {
  std::uint32_t magic;
  ActivationFormat format;
  OperandLayout layout;
  std::uint32_t k;
  std::uint32_t m;
  std::uint32_t blocks;
  std::uint32_t groups;   ///< tokens [0, 16 * groups), the last group perhaps padded with zero tokens
  std::uint32_t singles;  ///< tokens [m - singles, m)
  std::uint32_t reserved[8];
};
static_assert(sizeof(OperandHeader) == 64);

constexpr std::size_t operand_block_bytes(OperandLayout layout) {
  return layout == OperandLayout::scaled_pairs_zipped ? 64 : 128;
}

struct KernelTable {
  Isa isa;
  OperandLayout bf16_layout;
  /// Tokens from which a group of 16 is worth its padding; above 16: never.
  std::uint32_t group_threshold;

  /// One token of k values in GEMV order: blocks * operand_block_bytes(layout) bytes.
  void (*prepare_single)(OperandLayout, const float* x, std::uint32_t k, std::uint32_t blocks, void* out);
  /// `tokens` (1 to 16) tokens in GEMM order, the others zero.
  void (*prepare_group)(OperandLayout, const float* x, std::size_t x_stride, std::uint32_t tokens, std::uint32_t k,
                        std::uint32_t blocks, void* out);
  /// y[row] for one token in GEMV order. scratch: 64-byte aligned, kGemvScratchFloats long.
  void (*gemv)(const TileView&, OperandLayout, const void* x, const PanelSplit&, float* y, float* scratch);
  /// y[token * y_stride + row] for `groups` groups of 16 tokens in GEMM order, of which `tokens` tokens are wanted.
  void (*gemm)(const TileView&, OperandLayout, const void* x, std::uint32_t groups, std::uint32_t tokens,
               const PanelSplit&, float* y, std::size_t y_stride, float* scratch);
  void (*attention_page)(const Queries&, const KvPage&, const SoftmaxParts&, float* scratch);
  void (*softmax_merge)(const SoftmaxParts&, const SoftmaxParts&, std::uint32_t rows, std::uint32_t head_dim);

  void (*add)(const float*, const float*, float*, std::size_t);
  void (*sub)(const float*, const float*, float*, std::size_t);
  void (*mul)(const float*, const float*, float*, std::size_t);
  void (*fma)(const float*, const float*, const float*, float*, std::size_t);
  void (*axpy)(float, const float*, const float*, float*, std::size_t);
  void (*scale)(float, const float*, float*, std::size_t);
  void (*div_scalar)(const float*, float, float*, std::size_t);
  void (*exp)(const float*, float*, std::size_t);
  void (*exp_minus)(const float*, float, float*, std::size_t);  ///< exp(x - b)
  void (*silu)(const float*, float*, std::size_t);
  void (*swiglu)(const float*, const float*, float*, std::size_t);
  void (*scale_mul)(const float*, float, const float*, float*, std::size_t);  ///< (x * r) * w
  float (*sum)(const float*, std::size_t);
  float (*sum_squares)(const float*, std::size_t);
  float (*max)(const float*, std::size_t);
  void (*rope_pairs)(const float*, const float*, const float*, float*, std::size_t);
  void (*rope_halves)(const float*, const float*, const float*, float*, std::size_t);
  void (*bf16_from_f32)(const float*, std::uint16_t*, std::size_t);
  void (*f32_from_bf16)(const std::uint16_t*, float*, std::size_t);
};

/// The table in use.
const KernelTable& kernels();

/// What select_isa() does, for a table that has no Isa of its own (a test's build of the AVX-512 files on SIMDe).
void select_table(const KernelTable& table);

// One table an instruction set; the AVX ones are built only for x86-64.
extern const KernelTable kScalarKernels;
extern const KernelTable kAvx2Kernels;
extern const KernelTable kAvx512Kernels;
extern const KernelTable kAvx512Bf16Kernels;

// Row and token blocking of the vector kernels, shared because scratch sizes follow from it.
inline constexpr std::uint32_t kLanes = 16;
inline constexpr std::uint32_t kMaxRowBlock = 12;
inline constexpr std::uint32_t kGroupChunk = 8;  ///< groups of 16 tokens that share one decoding of the weights
inline constexpr std::uint32_t kGemvRowChunk = 64;

constexpr std::size_t kGemvScratchFloats = std::size_t{kGemvRowChunk} * kPanels;

constexpr std::size_t kFoldStackFloats = std::size_t{4} * 24 * kLanes;  ///< four levels of 24 accumulators

constexpr std::size_t gemm_scratch_floats(std::uint32_t blocks) {
  return std::size_t{kMaxRowBlock} * (blocks + 16)                     // scales
         + kFoldStackFloats                                            // fold in progress
         + std::size_t{kPanels} * kGroupChunk * kMaxRowBlock * kLanes  // panel sums
         + std::size_t{kMaxRowBlock} * blocks * 32 + 64;               // decoded rows, when all is one panel
}

constexpr std::size_t attention_scratch_floats(std::uint32_t rows, std::uint32_t head_dim, std::uint32_t tokens) {
  const std::size_t blocks = block_count(head_dim);
  const std::size_t groups = (tokens + kLanes - 1) / kLanes;
  return std::size_t{rows} * blocks * 32                      // queries, odd and even
         + groups * blocks * 32 * kLanes                      // keys, transposed
         + std::size_t{tokens} * ((head_dim + 15) / 16 * 16)  // values in FP32
         + std::size_t{rows} * groups * kLanes                // scores, then probabilities
         + kFoldStackFloats + 24 * kLanes + 64;               // fold in progress, one step's sums
}

/// A 64-byte aligned buffer of at least `floats` floats that belongs to the calling thread and lives until its next
/// call. Engine functions never nest, so one is enough.
float* thread_scratch(std::size_t floats);

/// Ends the process with a message: a defect of the caller, not an error condition.
[[noreturn]] void engine_defect(const char* what, std::uint64_t got, std::uint64_t expected);

}  // namespace jal::emu
