// Rows of every tensor type as FP32; the block layouts are ggml's.
#include <algorithm>
#include <bit>
#include <cstring>

#include "samples/01_llm/gguf.hpp"

namespace jal::llm {
namespace {

constexpr std::size_t kBlock = 32;

std::uint16_t load_u16(const std::uint8_t* at) {
  std::uint16_t value;
  std::memcpy(&value, at, sizeof value);
  return value;
}

/// IEEE binary16 to FP32, exact; NaN stays NaN.
float f32_from_f16(std::uint16_t half) {
  const std::uint32_t sign = std::uint32_t{half & 0x8000u} << 16;
  const std::uint32_t magnitude = half & 0x7fffu;
  if (magnitude >= 0x7c00u) return std::bit_cast<float>(sign | 0x7f800000u | (magnitude & 0x3ffu) << 13);
  if (magnitude >= 0x400u) return std::bit_cast<float>(sign | ((magnitude << 13) + (112u << 23)));
  const float value = static_cast<float>(magnitude) * 0x1p-24f;
  return std::bit_cast<float>(sign | std::bit_cast<std::uint32_t>(value));
}

/// ggml's 4-bit blocks hold element j in the low nibble of byte j and element j + 16 in the high one.
template <typename Decode>
void unpack_nibbles(const std::uint8_t* codes, float* out, Decode decode) {
  for (std::size_t j = 0; j < kBlock / 2; ++j) {
    out[j] = decode(codes[j] & 0xfu);
    out[j + kBlock / 2] = decode(static_cast<unsigned>(codes[j]) >> 4);
  }
}

/// Half of 2^(scale - 127), for codes of the doubled table; FP32 denormals below scale 2.
float half_e8m0(std::uint8_t scale) {
  if (scale == 255) return std::bit_cast<float>(0x7fc00000u);
  if (scale < 2) return std::bit_cast<float>(0x00200000u << scale);
  return std::bit_cast<float>(static_cast<std::uint32_t>(scale - 1) << 23);
}

}  // namespace

void dequantize_row(const GgufTensor& tensor, std::uint64_t row, std::span<float> out) {
  const std::uint8_t* in = tensor.bytes.data() + row * tensor.row_bytes();
  const std::size_t n = out.size();
  switch (tensor.type) {
    case GgufTensorType::f32:
      std::memcpy(out.data(), in, n * sizeof(float));
      break;
    case GgufTensorType::f16:
      for (std::size_t i = 0; i < n; ++i) out[i] = f32_from_f16(load_u16(in + 2 * i));
      break;
    case GgufTensorType::bf16:
      for (std::size_t i = 0; i < n; ++i) out[i] = std::bit_cast<float>(std::uint32_t{load_u16(in + 2 * i)} << 16);
      break;
    case GgufTensorType::q4_0:
      for (std::size_t i = 0; i < n; i += kBlock, in += 18) {
        const float d = f32_from_f16(load_u16(in));
        unpack_nibbles(in + 2, &out[i],
                       [d](unsigned code) { return static_cast<float>(static_cast<int>(code) - 8) * d; });
      }
      break;
    case GgufTensorType::q4_1:
      for (std::size_t i = 0; i < n; i += kBlock, in += 20) {
        const float d = f32_from_f16(load_u16(in));
        const float m = f32_from_f16(load_u16(in + 2));
        unpack_nibbles(in + 4, &out[i],
                       [d, m](unsigned code) { return static_cast<float>(static_cast<int>(code)) * d + m; });
      }
      break;
    case GgufTensorType::q8_0:
      for (std::size_t i = 0; i < n; i += kBlock, in += 34) {
        const float d = f32_from_f16(load_u16(in));
        for (std::size_t j = 0; j < kBlock; ++j)
          out[i + j] = static_cast<float>(static_cast<std::int8_t>(in[2 + j])) * d;
      }
      break;
    case GgufTensorType::mxfp4: {
      static constexpr float kDoubled[16] = {0, 1, 2, 3, 4, 6, 8, 12, -0.0f, -1, -2, -3, -4, -6, -8, -12};
      for (std::size_t i = 0; i < n; i += kBlock, in += 17) {
        const float d = half_e8m0(in[0]);
        unpack_nibbles(in + 1, &out[i], [d](unsigned code) { return kDoubled[code] * d; });
      }
      break;
    }
  }
}

}  // namespace jal::llm
