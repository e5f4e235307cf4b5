// Where the parts of a weight tile lie. Internal to the engines; the layout is stated in weights.hpp.
#pragma once
#include "emulator/engines/kernels.hpp"

namespace jal::emu {

constexpr std::size_t round_up_64(std::size_t bytes) { return (bytes + 63) / 64 * 64; }

inline TileView tile_view(WeightFormat format, const void* tile, std::uint32_t rows, std::uint32_t k) {
  const std::uint32_t blocks = block_count(k);
  const std::size_t row_bytes = blocks * block_code_bytes(format);
  const std::uint8_t* codes = static_cast<const std::uint8_t*>(tile);
  return {format, codes, codes + round_up_64(row_bytes * rows), row_bytes, rows, blocks};
}

}  // namespace jal::emu
