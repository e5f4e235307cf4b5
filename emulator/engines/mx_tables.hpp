// Tables that turn MX codes into the BF16 numbers the multiplier sees, one set a scale byte. Internal to the engines.
//
// An MX weight reaches the multiplier as BF16 w' = P * 2^(e - 127) * 2^-8 (P the element, e the scale byte), which is
// exact; |w'| < 2^-126 is zero, e = 255 is NaN. Activations are held times 2^8, so a product is that of the plain
// values. The factor keeps w' finite for every scale, and is what E4M3 read as an FP16 has anyway. Contract:
// docs/engine_numerics.md, "MX weights".
#pragma once
#include <array>
#include <cstdint>

namespace jal::emu {

/// w' of an element given as integer times 2^-9 (E2M1 and E4M3 are), as BF16 bits. Exact, flushed, or NaN.
constexpr std::uint16_t mx_bf16(std::uint32_t ninths, bool negative, std::uint32_t e) {
  const std::uint16_t sign = negative ? 0x8000 : 0;
  if (e == 255) return 0x7fc0;
  if (ninths == 0) return sign;
  std::uint32_t top = 0;
  while (ninths >> (top + 1) != 0) ++top;
  // value = ninths * 2^(-9 - 8 + e - 127); its BF16 exponent field is top + that + 127.
  const std::int32_t field = static_cast<std::int32_t>(top + e) - 17;
  if (field <= 0) return sign;
  const std::uint32_t fraction = (ninths << 7 >> top) & 0x7fu;
  return static_cast<std::uint16_t>(sign | static_cast<std::uint32_t>(field) << 7 | fraction);
}

/// Elements of E2M1 in units of 2^-9.
inline constexpr std::uint32_t kE2m1Ninths[8] = {0, 256, 512, 768, 1024, 1536, 2048, 3072};

/// E4M3 magnitude (0..126) in units of 2^-9.
constexpr std::uint32_t e4m3_ninths(std::uint32_t magnitude) {
  return magnitude < 8 ? magnitude : (8 + (magnitude & 7u)) << ((magnitude >> 3) - 1);
}

struct MxTables {
  /// E2M1 by code: low bytes, then high bytes; for byte shuffles.
  alignas(64) std::uint8_t e2m1_bytes[256][32];
  /// E2M1 by code, twice, because the word permutation's fifth index bit is not masked off.
  alignas(64) std::uint16_t e2m1_words[256][32];
  /// E4M3 with exponent field 0, by mantissa: what is to be added to mantissa << 4. For plain scales.
  alignas(64) std::uint16_t e4m3_small[256][8];
  /// E4M3 otherwise: what is to be added to magnitude << 4, in both words. For plain scales.
  alignas(64) std::uint32_t e4m3_bias[256];
  /// 2^(e - 15) in FP32: times an FP32 that has E4M3's exponent field and mantissa, it gives w'. Up to kMaxQuickScale.
  alignas(64) std::uint32_t e4m3_factor[256];
  /// 2^(e - 127) in FP32; 0 for e = 0 (the product would be flushed), NaN for 255.
  alignas(64) std::uint32_t factor[256];
};

extern const MxTables kMxTables;

/// Largest scale byte for which e4m3_factor is finite.
inline constexpr std::uint8_t kMaxQuickScale = 142;

/// Scale bytes for which e4m3_small and e4m3_bias hold: no element is flushed and none is NaN.
inline constexpr std::uint8_t kMinPlainScale = 18, kMaxPlainScale = 254;
constexpr bool mx_scale_is_plain(std::uint32_t e) { return e - kMinPlainScale <= kMaxPlainScale - kMinPlainScale; }

}  // namespace jal::emu
