// FP32 rows to the weight formats of the chip (BF16, MXFP8 E4M3, MXFP4 E2M1) and back, in plain order.
//
// What it is not: the chip's tile layout; the upload packs tiles from these arrays. Not the model file's formats either
// (gguf.hpp). Invariant: the codes are those of the chip's own quantiser for the same row; no element clips, because
// the scale is rounded up. Contract: docs/engine_numerics.md, "Quantise"; OCP Microscaling Formats v1.0, scale mode
// RCEIL.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace jal::llm {

enum class WeightFormat : std::uint32_t { bf16 = 0, mxfp8 = 1, mxfp4 = 2 };

/// "bf16", "mxfp8", "mxfp4".
std::string_view name_of(WeightFormat format);
/// The format of that name; false when there is none.
bool parse_weight_format(std::string_view name, WeightFormat* out_format);

/// Elements that share one scale, and the multiple to which MX rows are padded with zeros.
inline constexpr std::size_t kMxBlock = 32;

/// Bytes of the codes of a row of `columns` elements: BF16 2 an element without padding; MXFP8 1 and MXFP4 half a byte
/// an element, padded to whole blocks. MXFP4 holds the even element in the low nibble.
std::size_t code_row_bytes(WeightFormat format, std::size_t columns);
/// Bytes of the scales of a row: one E8M0 byte (2^(byte - 127), 255 is NaN) for each block; 0 for BF16.
std::size_t scale_row_bytes(WeightFormat format, std::size_t columns);

/// One row. `codes` has code_row_bytes bytes, `scales` scale_row_bytes. BF16: to nearest even, a NaN stays a NaN
/// (quiet). MX: elements to nearest even; an all-zero block has scale byte 0 and zero codes; a block with a NaN or an
/// infinity has scale 255 and zero codes. Thread-safe.
void quantize_row(WeightFormat format, std::span<const float> row, std::uint8_t* codes, std::uint8_t* scales);

/// Back to FP32: row.size() elements. Thread-safe.
void dequantize_row(WeightFormat format, const std::uint8_t* codes, const std::uint8_t* scales, std::span<float> row);

}  // namespace jal::llm
