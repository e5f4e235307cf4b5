// The matrix engine: Y = X W^T with the arithmetic of engine numerics v1.
//
// What it is not: a device. No clock, no scheduler, no thread: a caller cuts rows among cores and charges time itself.
// Invariant: the bits of y depend on weights, activations, k and panels only; never on rows in the call, tokens in the
// call, the instruction set or the machine.
// Contract: docs/engine_numerics.md, "Matrix engine".
#pragma once
#include <cstddef>
#include <cstdint>

#include "emulator/engines/bracket.hpp"
#include "emulator/engines/weights.hpp"

namespace jal::emu {

/// What activations become before the engine multiplies them: FP32 as they are, or BF16 rounded to nearest even.
enum class ActivationFormat : std::uint8_t { f32, bf16 };

/// "f32", "bf16".
const char* activation_format_name(ActivationFormat format);

/// True for the pairs the engine has: bf16 x f32, bf16 x bf16, mxfp8 x bf16, mxfp4 x bf16.
bool gemm_supported(WeightFormat weights, ActivationFormat activations);

/// Activations as the engine reads them: an opaque buffer of operand_bytes() bytes, 64-byte aligned, made once by
/// prepare_operand() and read by any number of threads. It begins with a header that names its format, k and m.
struct Operand;

/// Bytes of an operand of m tokens by k elements (k >= 1; m = 0 gives a header only).
std::size_t operand_bytes(ActivationFormat format, std::uint32_t k, std::uint32_t m);

/// Fills `out` from x[token * x_stride + i]. Returns `out` as an Operand. x is only read.
const Operand* prepare_operand(ActivationFormat format, const float* x, std::size_t x_stride, std::uint32_t k,
                               std::uint32_t m, void* out);

/// y[token * y_stride + row] = dot(weight row, token), token < m, row < rows; y_stride >= rows, in floats.
/// `tile` was packed with the same k; `operand` prepared with (activations, k, m) under the current instruction set: a
/// mismatch is a defect of the caller and ends the process with a message. y overlaps neither input.
/// panels: 8 when k is a whole K dimension; 8 / n when it is the share of one of n chips, cut by panel_range(). The
/// shares' results added by bracket_sum() equal the whole's, bit for bit.
/// next_tile: a tile of the same shape that this thread is likely to multiply next; it starts to come from memory,
/// which changes nothing else. nullptr: what lies behind `tile`. Never dereferenced. Up to seven tokens are computed
/// one by one from 64 rows at a time (GEMV), more of them in groups of 16 (GEMM), which decode each weight once per 128
/// tokens. Any thread; uses a scratch buffer that belongs to the thread.
void gemm(WeightFormat weights, ActivationFormat activations, const void* tile, std::uint32_t rows, std::uint32_t k,
          const Operand* operand, std::uint32_t m, float* y, std::size_t y_stride, std::uint32_t panels = kPanels,
          const void* next_tile = nullptr);

}  // namespace jal::emu
