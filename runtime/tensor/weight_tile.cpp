// Contract: weight_tile.hpp. Integer arithmetic on FP32 patterns, in loops of 32 that the compiler can vectorise.
#include "runtime/tensor/weight_tile.hpp"

#include <algorithm>
#include <bit>
#include <cstring>

namespace jal::rt {
namespace {

constexpr std::uint32_t kBlock = JAL_MX_BLOCK;
constexpr std::uint32_t kMagnitude = 0x7fffffffu, kInfinity = 0x7f800000u;
constexpr float kNan = __builtin_bit_cast(float, 0x7fc00000u);

std::uint32_t bits_of(float x) { return std::bit_cast<std::uint32_t>(x); }
float float_of(std::uint32_t bits) { return std::bit_cast<float>(bits); }
constexpr std::uint64_t round_up_64(std::uint64_t bytes) { return (bytes + 63) / 64 * 64; }

/// A minifloat: its largest exponent, the mantissa bits of its largest value as FP32 has them, its own mantissa bits,
/// its smallest normal exponent, its sign's place.
struct E4M3 {
  static constexpr int emax = 8, mantissa = 3, emin = -6, sign_shift = 24;
  static constexpr std::uint32_t limit = 0x600000u;
};
struct E2M1 {
  static constexpr int emax = 2, mantissa = 1, emin = 0, sign_shift = 28;
  static constexpr std::uint32_t limit = 0x400000u;
};

/// Scale byte of a block whose largest magnitude is amax, and the factor of its elements; 0 for zeros and for NaN.
template <typename Format>
std::uint8_t block_scale(std::uint32_t amax, float* factor) {
  *factor = 0.0f;
  if (amax >= kInfinity) return 255;
  if (amax == 0) return 0;
  int s = -127;
  if ((amax & kInfinity) != 0) {  // a denormal is far below every scale's reach
    s = static_cast<int>(amax >> 23) - 127 - Format::emax + ((amax & 0x7fffffu) > Format::limit ? 1 : 0);
    s = std::max(s, -127);
  }
  *factor = float_of(static_cast<std::uint32_t>(127 - s) << 23);  // s <= 126, so never below 2^-126
  return static_cast<std::uint8_t>(s + 127);
}

/// Codes, a byte each, of 32 elements that were scaled into the format's range.
template <typename Format>
void encode_block(const float* __restrict x, float factor, std::uint8_t* __restrict codes) {
  constexpr int drop = 23 - Format::mantissa;
  // Adding 2^(23 + emin - mantissa) leaves the multiple of the smallest denormal in the low bits, rounded to even.
  constexpr float magic =
      std::bit_cast<float>(static_cast<std::uint32_t>(127 + 23 + Format::emin - Format::mantissa) << 23);
  constexpr std::uint32_t bias = static_cast<std::uint32_t>(127 + Format::emin - 1) << Format::mantissa;
  constexpr std::uint32_t smallest_normal = static_cast<std::uint32_t>(127 + Format::emin) << 23;
  for (std::uint32_t i = 0; i < kBlock; ++i) {
    const std::uint32_t bits = bits_of(x[i] * factor);
    const std::uint32_t magnitude = bits & kMagnitude;
    const std::uint32_t sign = (bits & ~kMagnitude) >> Format::sign_shift;
    const std::uint32_t normal = ((magnitude + ((1u << (drop - 1)) - 1) + (magnitude >> drop & 1u)) >> drop) - bias;
    const std::uint32_t denormal = bits_of(float_of(magnitude) + magic) - bits_of(magic);
    // A mask, not a branch: which one it is, is a coin's toss.
    const std::uint32_t is_denormal = 0u - static_cast<std::uint32_t>(magnitude < smallest_normal);
    codes[i] = static_cast<std::uint8_t>((denormal & is_denormal) | (normal & ~is_denormal) | sign);
  }
}

/// The bytes of even places of 8, packed into 4; and back.
std::uint32_t gather_bytes(std::uint64_t x) {
  x &= 0x00ff00ff00ff00ffull;
  x = (x | x >> 8) & 0x0000ffff0000ffffull;
  return static_cast<std::uint32_t>(x | x >> 16);
}
std::uint64_t spread_bytes(std::uint32_t bytes) {
  std::uint64_t x = bytes;
  x = (x | x << 16) & 0x0000ffff0000ffffull;
  return (x | x << 8) & 0x00ff00ff00ff00ffull;
}

/// Plain order to engine order. mxfp8: the even elements, then the odd ones.
void interleave_mxfp8(const std::uint8_t* plain, std::uint8_t* block) {
  for (std::uint32_t i = 0; i < 4; ++i) {
    std::uint64_t eight = 0;
    std::memcpy(&eight, plain + 8 * i, 8);
    const std::uint32_t even = gather_bytes(eight), odd = gather_bytes(eight >> 8);
    std::memcpy(block + 4 * i, &even, 4);
    std::memcpy(block + kBlock / 2 + 4 * i, &odd, 4);
  }
}
void deinterleave_mxfp8(const std::uint8_t* block, std::uint8_t* plain) {
  for (std::uint32_t i = 0; i < 4; ++i) {
    std::uint32_t even = 0, odd = 0;
    std::memcpy(&even, block + 4 * i, 4);
    std::memcpy(&odd, block + kBlock / 2 + 4 * i, 4);
    const std::uint64_t eight = spread_bytes(even) | spread_bytes(odd) << 8;
    std::memcpy(plain + 8 * i, &eight, 8);
  }
}

/// Nibble i of 32 bits to byte i, and back.
std::uint64_t spread_nibbles(std::uint32_t nibbles) {
  std::uint64_t x = nibbles;
  x = (x | x << 16) & 0x0000ffff0000ffffull;
  x = (x | x << 8) & 0x00ff00ff00ff00ffull;
  return (x | x << 4) & 0x0f0f0f0f0f0f0f0full;
}
std::uint32_t gather_nibbles(std::uint64_t x) {
  x &= 0x0f0f0f0f0f0f0f0full;
  x = (x | x >> 4) & 0x00ff00ff00ff00ffull;
  x = (x | x >> 8) & 0x0000ffff0000ffffull;
  return static_cast<std::uint32_t>(x | x >> 16);
}

/// mxfp4, per half block of 16 elements: byte j has element j in its low nibble and element j + 8 in its high one.
void interleave_mxfp4(const std::uint8_t* plain, std::uint8_t* block) {
  for (int half = 0; half < 2; ++half) {
    std::uint32_t low = 0, high = 0;
    std::memcpy(&low, plain + 8 * half, 4);
    std::memcpy(&high, plain + 8 * half + 4, 4);
    const std::uint64_t bytes = spread_nibbles(low) | spread_nibbles(high) << 4;
    std::memcpy(block + 8 * half, &bytes, 8);
  }
}
void deinterleave_mxfp4(const std::uint8_t* block, std::uint8_t* plain) {
  for (int half = 0; half < 2; ++half) {
    std::uint64_t bytes = 0;
    std::memcpy(&bytes, block + 8 * half, 8);
    const std::uint32_t low = gather_nibbles(bytes), high = gather_nibbles(bytes >> 4);
    std::memcpy(plain + 8 * half, &low, 4);
    std::memcpy(plain + 8 * half + 4, &high, 4);
  }
}
/// One code a byte to engine order.
void pack_mxfp4(const std::uint8_t* __restrict codes, std::uint8_t* __restrict block) {
  for (std::uint32_t half = 0; half < 2; ++half) {
    for (std::uint32_t j = 0; j < 8; ++j) {
      block[8 * half + j] = static_cast<std::uint8_t>(codes[16 * half + j] | codes[16 * half + 8 + j] << 4);
    }
  }
}

template <typename Format>
void quantise_row(const WeightTile& tile, const float* x, std::uint64_t count, std::uint8_t* codes,
                  std::uint8_t* scales) {
  for (std::uint64_t b = 0; b < tile.blocks; ++b) {
    const std::uint64_t begin = b * kBlock;
    float tail[kBlock];
    const float* values = x + begin;
    if (begin + kBlock > count) {
      const std::uint64_t used = count > begin ? count - begin : 0;
      std::fill(tail, tail + kBlock, 0.0f);
      std::copy(x + (used != 0 ? begin : 0), x + (used != 0 ? begin + used : 0), tail);
      values = tail;
    }
    std::int32_t amax = 0;  // magnitudes have no sign bit, so a signed maximum is theirs
    for (std::uint32_t i = 0; i < kBlock; ++i) {
      amax = std::max(amax, static_cast<std::int32_t>(bits_of(values[i]) & kMagnitude));
    }
    float factor = 0.0f;
    scales[b] = block_scale<Format>(static_cast<std::uint32_t>(amax), &factor);
    std::uint8_t plain[kBlock] = {};
    if (factor != 0.0f) encode_block<Format>(values, factor, plain);
    // Padding is +0, also where the host's value is none.
    std::uint8_t* block = codes + b * tile.block_bytes;
    if constexpr (Format::mantissa == 3) {
      interleave_mxfp8(plain, block);
    } else {
      pack_mxfp4(plain, block);
    }
  }
}

float f32_from_e4m3(std::uint32_t code) {
  const std::uint32_t magnitude = code & 0x7fu;
  if (magnitude == 0x7f) return kNan;
  const float value =
      magnitude < 8 ? static_cast<float>(magnitude) * 0x1p-9f : float_of((magnitude << 20) + (120u << 23));
  return (code & 0x80u) != 0 ? -value : value;
}
float f32_from_e2m1(std::uint32_t code) {
  static constexpr float kValues[16] = {0.0f,  0.5f,  1.0f,  1.5f,  2.0f,  3.0f,  4.0f,  6.0f,
                                        -0.0f, -0.5f, -1.0f, -1.5f, -2.0f, -3.0f, -4.0f, -6.0f};
  return kValues[code & 15u];
}
float f32_from_e8m0(std::uint8_t scale) {
  if (scale == 0) return 0x1p-127f;
  if (scale == 255) return kNan;
  return float_of(std::uint32_t{scale} << 23);
}

std::uint8_t* row_codes(const WeightTile& tile, std::uint64_t row, void* out) {
  return static_cast<std::uint8_t*>(out) + row * tile.row_bytes;
}
std::uint8_t* row_scales(const WeightTile& tile, std::uint64_t row, void* out) {
  return static_cast<std::uint8_t*>(out) + tile.scales_offset + row * tile.blocks;
}

}  // namespace

WeightTile::WeightTile(std::uint32_t dtype_of_tile, std::uint64_t row_count, std::uint64_t k_of_row)
    : dtype(dtype_of_tile),
      rows(row_count),
      k(k_of_row),
      blocks((k_of_row + kBlock - 1) / kBlock),
      block_bytes(dtype_of_tile == JAL_DTYPE_BF16    ? 64
                  : dtype_of_tile == JAL_DTYPE_MXFP8 ? 32
                                                     : 16),
      row_bytes(blocks * block_bytes),
      scales_offset(round_up_64(row_count * row_bytes)),
      bytes(dtype_of_tile == JAL_DTYPE_BF16 ? row_count * row_bytes
            : row_count == 0                ? 0
                                            : scales_offset + round_up_64(row_count * blocks) + 64) {}

void zero_padding(const WeightTile& tile, void* out) {
  if (tile.dtype == JAL_DTYPE_BF16 || tile.rows == 0) return;
  auto* bytes = static_cast<std::uint8_t*>(out);
  const std::uint64_t codes_end = tile.rows * tile.row_bytes;
  const std::uint64_t scales_end = tile.scales_offset + tile.rows * tile.blocks;
  std::memset(bytes + codes_end, 0, tile.scales_offset - codes_end);
  std::memset(bytes + scales_end, 0, tile.bytes - scales_end);
}

void zero_row(const WeightTile& tile, std::uint64_t row, void* out) {
  std::memset(row_codes(tile, row, out), 0, tile.row_bytes);
  if (tile.dtype != JAL_DTYPE_BF16) std::memset(row_scales(tile, row, out), 0, tile.blocks);
}

std::uint16_t bf16_from_f32(float x) {
  const std::uint32_t bits = bits_of(x);
  if ((bits & kMagnitude) > kInfinity) return 0x7fc0;
  return static_cast<std::uint16_t>((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);
}

void pack_row_f32(const WeightTile& tile, std::uint64_t row, const float* x, std::uint64_t count, void* out) {
  std::uint8_t* codes = row_codes(tile, row, out);
  if (tile.dtype == JAL_DTYPE_MXFP8) return quantise_row<E4M3>(tile, x, count, codes, row_scales(tile, row, out));
  if (tile.dtype == JAL_DTYPE_MXFP4) return quantise_row<E2M1>(tile, x, count, codes, row_scales(tile, row, out));
  for (std::uint64_t i = 0; i < count; ++i) {
    const std::uint16_t value = bf16_from_f32(x[i]);
    std::memcpy(codes + i * 2, &value, 2);
  }
  std::memset(codes + count * 2, 0, tile.row_bytes - count * 2);
}

void pack_row_bf16(const WeightTile& tile, std::uint64_t row, const std::uint16_t* x, std::uint64_t count, void* out) {
  std::uint8_t* codes = row_codes(tile, row, out);
  if (count != 0) std::memcpy(codes, x, count * 2);
  std::memset(codes + count * 2, 0, tile.row_bytes - count * 2);
}

void pack_row_codes(const WeightTile& tile, std::uint64_t row, const std::uint8_t* codes, const std::uint8_t* scales,
                    std::uint64_t count, void* out) {
  std::uint8_t* to = row_codes(tile, row, out);
  std::uint8_t* to_scales = row_scales(tile, row, out);
  const bool is_mxfp8 = tile.dtype == JAL_DTYPE_MXFP8;
  for (std::uint64_t b = 0; b < tile.blocks; ++b) {
    const std::uint64_t begin = b * kBlock;
    std::uint8_t* block = to + b * tile.block_bytes;
    if (begin >= count) {
      std::memset(block, 0, tile.block_bytes);
      to_scales[b] = 0;
      continue;
    }
    const std::uint8_t* plain = codes + b * tile.block_bytes;
    std::uint8_t tail[kBlock] = {};
    if (begin + kBlock > count) {
      const std::uint64_t used = count - begin;
      std::memcpy(tail, plain, is_mxfp8 ? used : (used + 1) / 2);
      if (!is_mxfp8 && used % 2 != 0) tail[used / 2] &= 15u;
      plain = tail;
    }
    std::uint8_t scale = scales[b];
    if (is_mxfp8) {
      interleave_mxfp8(plain, block);
      std::uint8_t largest = 0;
      for (std::uint32_t i = 0; i < kBlock; ++i)
        largest = std::max(largest, static_cast<std::uint8_t>(plain[i] & 0x7fu));
      if (largest == 0x7f) scale = 255;
    } else {
      interleave_mxfp4(plain, block);
    }
    to_scales[b] = scale;
  }
}

void unpack_row_f32(const WeightTile& tile, std::uint64_t row, const void* bytes, std::uint64_t count, float* out) {
  const auto* begin = static_cast<const std::uint8_t*>(bytes);
  const std::uint8_t* codes = begin + row * tile.row_bytes;
  const std::uint8_t* scales = begin + tile.scales_offset + row * tile.blocks;
  for (std::uint64_t i = 0; i < count; ++i) {
    if (tile.dtype == JAL_DTYPE_BF16) {
      std::uint16_t value = 0;
      std::memcpy(&value, codes + i * 2, 2);
      out[i] = f32_from_bf16(value);
      continue;
    }
    const std::uint64_t e = i % kBlock;
    const std::uint8_t* block = codes + i / kBlock * tile.block_bytes;
    const float element =
        tile.dtype == JAL_DTYPE_MXFP8
            ? f32_from_e4m3(block[e / 2 + e % 2 * 16])
            : f32_from_e2m1(static_cast<std::uint32_t>(block[(e & 7) + (e >> 4) * 8] >> ((e & 8) != 0 ? 4 : 0)));
    out[i] = element * f32_from_e8m0(scales[i / kBlock]);
  }
}

void unpack_row_bf16(const WeightTile& tile, std::uint64_t row, const void* bytes, std::uint64_t count,
                     std::uint16_t* out) {
  std::memcpy(out, static_cast<const std::uint8_t*>(bytes) + row * tile.row_bytes, count * 2);
}

void unpack_row_codes(const WeightTile& tile, std::uint64_t row, const void* bytes, std::uint8_t* codes,
                      std::uint8_t* scales) {
  const auto* begin = static_cast<const std::uint8_t*>(bytes);
  const std::uint8_t* blocks = begin + row * tile.row_bytes;
  std::memcpy(scales, begin + tile.scales_offset + row * tile.blocks, tile.blocks);
  for (std::uint64_t b = 0; b < tile.blocks; ++b) {
    if (tile.dtype == JAL_DTYPE_MXFP8) {
      deinterleave_mxfp8(blocks + b * tile.block_bytes, codes + b * tile.block_bytes);
    } else {
      deinterleave_mxfp4(blocks + b * tile.block_bytes, codes + b * tile.block_bytes);
    }
  }
}

}  // namespace jal::rt
