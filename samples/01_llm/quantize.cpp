// Branch-free loops over integer patterns: the compiler vectorises them for any target, and no rounding mode matters
// but the default.
#include "samples/01_llm/quantize.hpp"

#include <bit>
#include <cstring>

namespace jal::llm {
namespace {

constexpr std::uint32_t kInfinity = 0x7f800000u;

struct Element {
  int largest_exponent;        ///< of the format's largest value
  std::uint32_t largest_tail;  ///< FP32 mantissa bits of that value
  int mantissa_bits;
  int smallest_normal_exponent;
};
constexpr Element kE4m3{8, 0x600000u, 3, -6};  // 448 = 1.75 * 2^8
constexpr Element kE2m1{2, 0x400000u, 1, 0};   // 6 = 1.5 * 2^2

/// Code without sign of a magnitude that is at most the format's largest value. Normal results round in the FP32
/// pattern. Denormal ones by adding the power of two whose last place is the format's smallest step: the sum's low bits
/// are then the code.
template <Element kFormat>
std::uint32_t magnitude_code(std::uint32_t magnitude) {
  constexpr int kDrop = 23 - kFormat.mantissa_bits;
  constexpr std::uint32_t kSmallestNormal = static_cast<std::uint32_t>(127 + kFormat.smallest_normal_exponent) << 23;
  constexpr std::uint32_t kRebias = static_cast<std::uint32_t>(127 + kFormat.smallest_normal_exponent - 1)
                                    << kFormat.mantissa_bits;
  constexpr std::uint32_t kStepAtOne = static_cast<std::uint32_t>(127 + kFormat.smallest_normal_exponent + kDrop) << 23;
  const std::uint32_t normal =
      ((magnitude + ((1u << (kDrop - 1)) - 1u) + ((magnitude >> kDrop) & 1u)) >> kDrop) - kRebias;
  const float shifted = std::bit_cast<float>(magnitude) + std::bit_cast<float>(kStepAtOne);
  const std::uint32_t denormal = std::bit_cast<std::uint32_t>(shifted) - kStepAtOne;
  return magnitude < kSmallestNormal ? denormal : normal;
}

/// Scale byte of a block whose largest magnitude has these FP32 bits, and the power of two that its elements are
/// multiplied with.
template <Element kFormat>
std::uint8_t block_scale(std::uint32_t amax, float* factor) {
  *factor = 0.0f;
  if (amax >= kInfinity) return 255;
  if (amax == 0) return 0;
  // RCEIL: the smallest s with amax <= largest * 2^s. An FP32 denormal is far below the largest value times the
  // smallest scale.
  int s = static_cast<int>(amax >> 23) - 127 - kFormat.largest_exponent +
          ((amax & 0x7fffffu) > kFormat.largest_tail ? 1 : 0);
  if (s < -127 || amax < 0x00800000u) s = -127;
  // s is at most 126, so 2^-s is a normal number.
  *factor = std::bit_cast<float>(static_cast<std::uint32_t>(127 - s) << 23);
  return static_cast<std::uint8_t>(s + 127);
}

std::uint32_t largest_magnitude(const float* x) {
  std::uint32_t amax = 0;
  for (std::size_t i = 0; i < kMxBlock; ++i) {
    const std::uint32_t bits = std::bit_cast<std::uint32_t>(x[i]) & 0x7fffffffu;
    amax = bits > amax ? bits : amax;
  }
  return amax;
}

/// Codes of a whole block, one a byte, with the sign at `sign_shift`.
template <Element kFormat>
std::uint8_t quantize_block(const float* x, std::uint8_t* codes) {
  constexpr int kSignShift = 31 - (kFormat.mantissa_bits == 3 ? 7 : 3);
  float factor = 0.0f;
  const std::uint8_t scale = block_scale<kFormat>(largest_magnitude(x), &factor);
  if (factor == 0.0f) {
    std::memset(codes, 0, kMxBlock);
    return scale;
  }
  for (std::size_t i = 0; i < kMxBlock; ++i) {
    const auto bits = std::bit_cast<std::uint32_t>(x[i] * factor);
    codes[i] =
        static_cast<std::uint8_t>((bits & 0x80000000u) >> kSignShift | magnitude_code<kFormat>(bits & 0x7fffffffu));
  }
  return scale;
}

/// Calls block(x, b) for every block of the row, the last one padded with zeros.
template <typename Block>
void for_each_block(std::span<const float> row, Block block) {
  const std::size_t whole = row.size() / kMxBlock;
  for (std::size_t b = 0; b < whole; ++b) block(row.data() + b * kMxBlock, b);
  if (whole * kMxBlock == row.size()) return;
  float padded[kMxBlock] = {};
  std::memcpy(padded, row.data() + whole * kMxBlock, (row.size() - whole * kMxBlock) * sizeof(float));
  block(padded, whole);
}

void quantize_bf16(std::span<const float> row, std::uint8_t* codes) {
  for (std::size_t i = 0; i < row.size(); ++i) {
    const auto bits = std::bit_cast<std::uint32_t>(row[i]);
    const std::uint32_t rounded = (bits + 0x7fffu + (bits >> 16 & 1u)) >> 16;
    const std::uint32_t quiet = bits >> 16 | 0x40u;
    const auto code = static_cast<std::uint16_t>((bits & 0x7fffffffu) > kInfinity ? quiet : rounded);
    std::memcpy(codes + 2 * i, &code, sizeof code);
  }
}

float f32_from_e8m0(std::uint8_t scale) {
  if (scale == 0) return std::bit_cast<float>(0x00400000u);
  if (scale == 255) return std::bit_cast<float>(0x7fc00000u);
  return std::bit_cast<float>(static_cast<std::uint32_t>(scale) << 23);
}

float f32_from_e4m3(unsigned code) {
  const std::uint32_t magnitude = code & 0x7fu;
  const std::uint32_t sign = (code & 0x80u) << 24;
  if (magnitude == 0x7f) return std::bit_cast<float>(0x7fc00000u);
  const float value =
      magnitude < 8 ? static_cast<float>(magnitude) * 0x1p-9f : std::bit_cast<float>((magnitude << 20) + (120u << 23));
  return std::bit_cast<float>(sign | std::bit_cast<std::uint32_t>(value));
}

constexpr float kE2m1Values[16] = {0, 0.5f, 1, 1.5f, 2, 3, 4, 6, -0.0f, -0.5f, -1, -1.5f, -2, -3, -4, -6};

}  // namespace

std::string_view name_of(WeightFormat format) {
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

bool parse_weight_format(std::string_view name, WeightFormat* out_format) {
  for (const WeightFormat format : {WeightFormat::bf16, WeightFormat::mxfp8, WeightFormat::mxfp4}) {
    if (name != name_of(format)) continue;
    *out_format = format;
    return true;
  }
  return false;
}

std::size_t code_row_bytes(WeightFormat format, std::size_t columns) {
  const std::size_t padded = (columns + kMxBlock - 1) / kMxBlock * kMxBlock;
  switch (format) {
    case WeightFormat::bf16:
      return 2 * columns;
    case WeightFormat::mxfp8:
      return padded;
    case WeightFormat::mxfp4:
      return padded / 2;
  }
  return 0;
}

std::size_t scale_row_bytes(WeightFormat format, std::size_t columns) {
  return format == WeightFormat::bf16 ? 0 : (columns + kMxBlock - 1) / kMxBlock;
}

void quantize_row(WeightFormat format, std::span<const float> row, std::uint8_t* codes, std::uint8_t* scales) {
  switch (format) {
    case WeightFormat::bf16:
      quantize_bf16(row, codes);
      break;
    case WeightFormat::mxfp8:
      for_each_block(
          row, [&](const float* x, std::size_t b) { scales[b] = quantize_block<kE4m3>(x, codes + b * kMxBlock); });
      break;
    case WeightFormat::mxfp4:
      for_each_block(row, [&](const float* x, std::size_t b) {
        std::uint8_t single[kMxBlock];
        scales[b] = quantize_block<kE2m1>(x, single);
        std::uint8_t* pairs = codes + b * kMxBlock / 2;
        for (std::size_t i = 0; i < kMxBlock / 2; ++i)
          pairs[i] = static_cast<std::uint8_t>(single[2 * i] | single[2 * i + 1] << 4);
      });
      break;
  }
}

void dequantize_row(WeightFormat format, const std::uint8_t* codes, const std::uint8_t* scales, std::span<float> row) {
  for (std::size_t i = 0; i < row.size(); ++i) {
    switch (format) {
      case WeightFormat::bf16: {
        std::uint16_t code = 0;
        std::memcpy(&code, codes + 2 * i, sizeof code);
        row[i] = std::bit_cast<float>(std::uint32_t{code} << 16);
        break;
      }
      case WeightFormat::mxfp8:
        row[i] = f32_from_e4m3(codes[i]) * f32_from_e8m0(scales[i / kMxBlock]);
        break;
      case WeightFormat::mxfp4:
        row[i] = kE2m1Values[codes[i / 2] >> (i % 2 * 4) & 0xf] * f32_from_e8m0(scales[i / kMxBlock]);
        break;
    }
  }
}

}  // namespace jal::llm
