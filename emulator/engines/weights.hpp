// Weight tiles: the bytes of a matrix of `rows` output rows by `k` reduction elements as the matrix engine reads them.
//
// What it is not: a tensor. A tile has no header; who holds it knows format, rows and k.
// Invariant: the bytes are the same for every instruction set; a tile is aligned to 64 bytes by its owner.
// Layouts (docs/engine_numerics.md, "Weight tiles"), with B = block_count(k):
//   bf16   rows * B * 64 bytes: BF16 row by row, each row padded with zeros to whole blocks.
//   mxfp8  rows * B * 32 bytes of E4M3 codes, padded to 64; then rows * B scale bytes, padded to 64, and 64 spare
//   bytes. mxfp4  rows * B * 16 bytes of E2M1 codes, padded to 64; then the scales, as above.
// The order of codes inside a block is the engine's own; pack and unpack translate.
#pragma once
#include <cstddef>
#include <cstdint>

namespace jal::emu {

enum class WeightFormat : std::uint8_t { bf16, mxfp8, mxfp4 };

/// "bf16", "mxfp8", "mxfp4".
const char* weight_format_name(WeightFormat format);

/// Bytes of a tile; 0 for no rows. k >= 1.
std::size_t weight_tile_bytes(WeightFormat format, std::uint32_t rows, std::uint32_t k);

/// Bytes a GEMV over the tile has to read: the tile without its padding. For bandwidth figures.
std::size_t weight_payload_bytes(WeightFormat format, std::uint32_t rows, std::uint32_t k);

/// Packs BF16 values source[row * source_stride + i], i < k, into a bf16 tile.
void pack_bf16(const std::uint16_t* source, std::size_t source_stride, std::uint32_t rows, std::uint32_t k, void* tile);

/// Packs FP32 values into a tile of any format: BF16 by round to nearest even; MX by RCEIL scales (quantize.hpp).
void pack_f32(WeightFormat format, const float* source, std::size_t source_stride, std::uint32_t rows, std::uint32_t k,
              void* tile);

/// Packs plain MX codes: for mxfp8 one byte per element, row by row with B * 32 elements a row; for mxfp4 half a byte
/// per element, low nibble first. scales: rows * B bytes of E8M0. Elements beyond k must be zero codes.
/// An E4M3 NaN code (0x7f, 0xff) makes its block's scale 255, which gives the same results and is cheaper to compute.
void pack_mx(WeightFormat format, const std::uint8_t* codes, const std::uint8_t* scales, std::uint32_t rows,
             std::uint32_t k, void* tile);

/// Plain codes and scales of an MX tile: the inverse of pack_mx.
void unpack_mx(WeightFormat format, const void* tile, std::uint32_t rows, std::uint32_t k, std::uint8_t* codes,
               std::uint8_t* scales);

/// FP32 values of a tile: out[row * out_stride + i] = code * 2^(scale - 127), exact except where FP32 cannot hold the
/// product (rounded to nearest even; NaN scale gives NaN). For checks and for reading weights back.
void unpack_f32(WeightFormat format, const void* tile, std::uint32_t rows, std::uint32_t k, float* out,
                std::size_t out_stride);

}  // namespace jal::emu
