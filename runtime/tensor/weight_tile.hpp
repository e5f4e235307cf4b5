// Weight tiles: the matrix engine's byte order of a matrix of `rows` by `k`, packed and unpacked row by row on the
// host. The order is docs/engine_numerics.md, "Weight tiles"; quantisation is that document's "Quantise" (RCEIL: the
// scale is rounded up so that nothing clips; elements round to nearest even).
//
// What it is not: a tensor or a transfer. Invariant: a tile whose bytes began as zeros (or after zero_padding and every
// row packed) is the tile the emulator's own packer makes, bit for bit. Threads: different rows of a tile may be packed
// by different threads.
#pragma once
#include <jal/abi/tensor.h>

#include <cstddef>
#include <cstdint>

namespace jal::rt {

/// Where the parts of a tile lie. dtype: JAL_DTYPE_BF16, _MXFP8 or _MXFP4. k >= 1.
struct WeightTile {
  WeightTile(std::uint32_t dtype_of_tile, std::uint64_t row_count, std::uint64_t k_of_row);

  std::uint32_t dtype;
  std::uint64_t rows, k;
  std::uint64_t blocks;         ///< of a row: ceil(k / 32)
  std::uint64_t block_bytes;    ///< codes of one block
  std::uint64_t row_bytes;      ///< blocks * block_bytes
  std::uint64_t scales_offset;  ///< MX: of the first scale byte
  std::uint64_t bytes;          ///< of the tile; 0 for no rows
};

/// Zeroes what no row covers: the ends of codes and scales, and the spare bytes.
void zero_padding(const WeightTile& tile, void* out);
/// A row of zeros: for rows that are padding.
void zero_row(const WeightTile& tile, std::uint64_t row, void* out);

/// Packs a row of `count` <= k FP32 values; the rest of the row becomes zero.
void pack_row_f32(const WeightTile& tile, std::uint64_t row, const float* x, std::uint64_t count, void* out);
/// The same from BF16; only for BF16 tiles.
void pack_row_bf16(const WeightTile& tile, std::uint64_t row, const std::uint16_t* x, std::uint64_t count, void* out);
/// Packs plain MX codes (mxfp8: a byte per element; mxfp4: low nibble first) and one scale byte per block. Codes of
/// elements beyond `count` are taken as zero. A block with an E4M3 NaN code gets scale 255, as the engine wants it.
void pack_row_codes(const WeightTile& tile, std::uint64_t row, const std::uint8_t* codes, const std::uint8_t* scales,
                    std::uint64_t count, void* out);

/// The first `count` values of a row as FP32: code * 2^(scale - 127), NaN for scale 255.
void unpack_row_f32(const WeightTile& tile, std::uint64_t row, const void* bytes, std::uint64_t count, float* out);
/// The BF16 values of a BF16 tile's row.
void unpack_row_bf16(const WeightTile& tile, std::uint64_t row, const void* bytes, std::uint64_t count,
                     std::uint16_t* out);
/// Plain codes (whole blocks) and scales of a row of an MX tile.
void unpack_row_codes(const WeightTile& tile, std::uint64_t row, const void* bytes, std::uint8_t* codes,
                      std::uint8_t* scales);

/// Round to nearest even; every NaN becomes 0x7fc0; denormals stay.
std::uint16_t bf16_from_f32(float x);
inline float f32_from_bf16(std::uint16_t x) { return __builtin_bit_cast(float, std::uint32_t{x} << 16); }

}  // namespace jal::rt
