// Packing of weight tiles: the engine's order of codes inside a block, and back.
#include "emulator/engines/weights.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "emulator/engines/bracket.hpp"
#include "emulator/engines/kernels.hpp"
#include "emulator/engines/quantize.hpp"
#include "emulator/engines/tile_view.hpp"
#include "jal/kernel/math.hpp"

namespace jal::emu {
namespace {

/// mxfp8: the 16 even elements, then the 16 odd ones, so that one widening load gives one operand of all 16 lanes.
constexpr std::uint32_t mxfp8_byte_of(std::uint32_t element) { return element / 2 + (element % 2) * 16; }

/// mxfp4: byte b has element (b & 7) + 16 (b >> 3) in its low nibble and that + 8 in its high one, so that AVX2's
/// in-lane byte unpack and AVX-512's multishift both give the elements in order.
constexpr std::uint32_t mxfp4_byte_of(std::uint32_t element) { return (element & 7u) + (element >> 4) * 8; }
constexpr std::uint32_t mxfp4_shift_of(std::uint32_t element) { return (element & 8u) != 0 ? 4 : 0; }

void store_block(WeightFormat format, const std::uint8_t* plain, std::uint8_t* block, std::uint8_t* scale) {
  if (format == WeightFormat::mxfp8) {
    for (std::uint32_t e = 0; e < kBlockElements; ++e) {
      const std::uint8_t code = plain[e];
      if ((code & 0x7fu) == 0x7fu) *scale = 255;
      block[mxfp8_byte_of(e)] = code;
    }
    return;
  }
  std::memset(block, 0, 16);
  for (std::uint32_t e = 0; e < kBlockElements; ++e) {
    const unsigned code = (plain[e / 2] >> (e % 2 * 4)) & 15u;
    block[mxfp4_byte_of(e)] = static_cast<std::uint8_t>(block[mxfp4_byte_of(e)] | code << mxfp4_shift_of(e));
  }
}

std::uint8_t load_code(WeightFormat format, const std::uint8_t* block, std::uint32_t element) {
  if (format == WeightFormat::mxfp8) return block[mxfp8_byte_of(element)];
  return static_cast<std::uint8_t>((block[mxfp4_byte_of(element)] >> mxfp4_shift_of(element)) & 15u);
}

std::size_t plain_block_bytes(WeightFormat format) { return format == WeightFormat::mxfp8 ? 32 : 16; }

}  // namespace

const char* weight_format_name(WeightFormat format) {
  switch (format) {
    case WeightFormat::bf16:
      return "bf16";
    case WeightFormat::mxfp8:
      return "mxfp8";
    case WeightFormat::mxfp4:
      return "mxfp4";
  }
  return "unknown";
}

std::size_t weight_tile_bytes(WeightFormat format, std::uint32_t rows, std::uint32_t k) {
  if (rows == 0) return 0;
  const TileView view = tile_view(format, nullptr, rows, k);
  const std::size_t codes = view.row_bytes * rows;
  if (format == WeightFormat::bf16) return codes;
  return round_up_64(codes) + round_up_64(std::size_t{rows} * view.blocks) + 64;
}

std::size_t weight_payload_bytes(WeightFormat format, std::uint32_t rows, std::uint32_t k) {
  const TileView view = tile_view(format, nullptr, rows, k);
  return view.row_bytes * rows + (format == WeightFormat::bf16 ? 0 : std::size_t{rows} * view.blocks);
}

void pack_bf16(const std::uint16_t* source, std::size_t source_stride, std::uint32_t rows, std::uint32_t k,
               void* tile) {
  const TileView view = tile_view(WeightFormat::bf16, tile, rows, k);
  for (std::uint32_t r = 0; r < rows; ++r) {
    std::uint8_t* out = static_cast<std::uint8_t*>(tile) + r * view.row_bytes;
    std::memcpy(out, source + r * source_stride, std::size_t{k} * 2);
    std::memset(out + std::size_t{k} * 2, 0, view.row_bytes - std::size_t{k} * 2);
  }
}

void pack_f32(WeightFormat format, const float* source, std::size_t source_stride, std::uint32_t rows, std::uint32_t k,
              void* tile) {
  const TileView view = tile_view(format, tile, rows, k);
  std::vector<std::uint8_t> codes(std::size_t{view.blocks} * 64);
  std::vector<std::uint8_t> scales(view.blocks);
  std::uint8_t* bytes = static_cast<std::uint8_t*>(tile);
  if (format != WeightFormat::bf16 && rows != 0) std::memset(tile, 0, weight_tile_bytes(format, rows, k));
  for (std::uint32_t r = 0; r < rows; ++r) {
    const float* x = source + r * source_stride;
    std::uint8_t* out = bytes + r * view.row_bytes;
    if (format == WeightFormat::bf16) {
      std::memset(out, 0, view.row_bytes);
      for (std::uint32_t i = 0; i < k; ++i) {
        const std::uint16_t value = kernel::bf16_from_f32(x[i]);
        std::memcpy(out + std::size_t{i} * 2, &value, 2);
      }
      continue;
    }
    if (format == WeightFormat::mxfp8) {
      quantize_mxfp8(x, k, codes.data(), scales.data());
    } else {
      quantize_mxfp4(x, k, codes.data(), scales.data());
    }
    for (std::uint32_t b = 0; b < view.blocks; ++b) {
      store_block(format, codes.data() + b * plain_block_bytes(format), out + b * block_code_bytes(format), &scales[b]);
    }
    std::memcpy(bytes + (view.scales - bytes) + std::size_t{r} * view.blocks, scales.data(), view.blocks);
  }
}

void pack_mx(WeightFormat format, const std::uint8_t* codes, const std::uint8_t* scales, std::uint32_t rows,
             std::uint32_t k, void* tile) {
  if (rows == 0) return;
  const TileView view = tile_view(format, tile, rows, k);
  std::uint8_t* bytes = static_cast<std::uint8_t*>(tile);
  std::memset(tile, 0, weight_tile_bytes(format, rows, k));
  std::uint8_t* out_scales = bytes + (view.scales - bytes);
  const std::size_t block_bytes = plain_block_bytes(format);
  for (std::size_t b = 0; b < std::size_t{rows} * view.blocks; ++b) {
    std::uint8_t scale = scales[b];
    store_block(format, codes + b * block_bytes, bytes + b * block_bytes, &scale);
    out_scales[b] = scale;
  }
}

void unpack_mx(WeightFormat format, const void* tile, std::uint32_t rows, std::uint32_t k, std::uint8_t* codes,
               std::uint8_t* scales) {
  const TileView view = tile_view(format, tile, rows, k);
  const std::size_t block_bytes = plain_block_bytes(format);
  for (std::size_t b = 0; b < std::size_t{rows} * view.blocks; ++b) {
    const std::uint8_t* block = view.codes + b * block_bytes;
    std::uint8_t* out = codes + b * block_bytes;
    std::memset(out, 0, block_bytes);
    for (std::uint32_t e = 0; e < kBlockElements; ++e) {
      const unsigned code = load_code(format, block, e);
      if (format == WeightFormat::mxfp8) {
        out[e] = static_cast<std::uint8_t>(code);
      } else {
        out[e / 2] = static_cast<std::uint8_t>(out[e / 2] | code << (e % 2 * 4));
      }
    }
    scales[b] = view.scales[b];
  }
}

void unpack_f32(WeightFormat format, const void* tile, std::uint32_t rows, std::uint32_t k, float* out,
                std::size_t out_stride) {
  const TileView view = tile_view(format, tile, rows, k);
  for (std::uint32_t r = 0; r < rows; ++r) {
    for (std::uint32_t i = 0; i < k; ++i) {
      const std::uint32_t b = i / kBlockElements;
      const std::uint8_t* block = view.codes + r * view.row_bytes + b * block_code_bytes(format);
      if (format == WeightFormat::bf16) {
        std::uint16_t value = 0;
        std::memcpy(&value, block + i % kBlockElements * 2, 2);
        out[r * out_stride + i] = kernel::f32_from_bf16(value);
        continue;
      }
      const std::uint8_t code = load_code(format, block, i % kBlockElements);
      const float element = format == WeightFormat::mxfp8 ? f32_from_e4m3(code) : f32_from_e2m1(code);
      out[r * out_stride + i] = element * f32_from_e8m0(view.scales[std::size_t{r} * view.blocks + b]);
    }
  }
}

}  // namespace jal::emu
