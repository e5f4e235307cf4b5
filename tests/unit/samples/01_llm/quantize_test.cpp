// The host's quantiser: rounding, special values, and code for code the chip's own.
#include "samples/01_llm/quantize.hpp"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "emulator/engines/quantize.hpp"
#include "jal/kernel/math.hpp"

namespace jal::llm {
namespace {

struct Quantised {
  std::vector<std::uint8_t> codes;
  std::vector<std::uint8_t> scales;
  bool operator==(const Quantised&) const = default;
};

Quantised quantise(WeightFormat format, const std::vector<float>& row) {
  // Filled with a pattern: every byte must be written.
  Quantised q{std::vector<std::uint8_t>(code_row_bytes(format, row.size()), 0xaa),
              std::vector<std::uint8_t>(scale_row_bytes(format, row.size()), 0xaa)};
  quantize_row(format, row, q.codes.data(), q.scales.data());
  return q;
}

Quantised by_the_chip(WeightFormat format, const std::vector<float>& row) {
  Quantised q{std::vector<std::uint8_t>(code_row_bytes(format, row.size())),
              std::vector<std::uint8_t>(scale_row_bytes(format, row.size()))};
  const auto k = static_cast<std::uint32_t>(row.size());
  if (format == WeightFormat::mxfp8) emu::quantize_mxfp8(row.data(), k, q.codes.data(), q.scales.data());
  if (format == WeightFormat::mxfp4) emu::quantize_mxfp4(row.data(), k, q.codes.data(), q.scales.data());
  return q;
}

std::vector<float> back(WeightFormat format, const Quantised& q, std::size_t n) {
  std::vector<float> row(n);
  dequantize_row(format, q.codes.data(), q.scales.data(), row);
  return row;
}

TEST(Quantize, CodesAreThoseOfTheChip) {
  const std::uint64_t seed = 20261201;
  RecordProperty("seed", std::to_string(seed));
  std::mt19937_64 random(seed);
  std::normal_distribution<float> normal;
  const float inf = std::numeric_limits<float>::infinity();
  for (int round = 0; round < 3000; ++round) {
    std::vector<float> row(1 + random() % 130);
    const int kind = round % 6;
    for (float& x : row) {
      if (kind == 0) x = normal(random);
      if (kind == 1) x = std::bit_cast<float>(static_cast<std::uint32_t>(random()));                     // any bits
      if (kind == 2) x = std::ldexp(normal(random), static_cast<int>(random() % 290) - 160);             // any scale
      if (kind == 3) x = static_cast<float>(static_cast<int>(random() % 65) - 32) * 0.25f;               // ties
      if (kind == 4) x = std::ldexp(static_cast<float>(static_cast<int>(random() % 1025) - 512), -140);  // denormals
      if (kind == 5) x = random() % 16 == 0 ? normal(random) : -0.0f;
    }
    if (kind == 0 && round % 5 == 0) row[random() % row.size()] = round % 2 == 0 ? inf : std::nanf("");
    for (const WeightFormat format : {WeightFormat::mxfp8, WeightFormat::mxfp4}) {
      ASSERT_TRUE(quantise(format, row) == by_the_chip(format, row))
          << name_of(format) << " kind " << kind << " round " << round << " seed " << seed;
    }
    const Quantised bf16 = quantise(WeightFormat::bf16, row);
    for (std::size_t i = 0; i < row.size(); ++i) {
      const auto code = static_cast<std::uint16_t>(bf16.codes[2 * i] | bf16.codes[2 * i + 1] << 8);
      if (std::isnan(row[i])) {
        ASSERT_TRUE((code & 0x7f80u) == 0x7f80u && (code & 0x40u) != 0);
      } else {
        ASSERT_EQ(code, kernel::bf16_from_f32(row[i])) << row[i];
      }
    }
  }
}

TEST(Quantize, NothingClipsAndTheScaleIsTheSmallest) {
  for (const auto& [format, largest] : {std::pair{WeightFormat::mxfp8, 448.0f}, std::pair{WeightFormat::mxfp4, 6.0f}}) {
    for (int e = -20; e < 20; ++e) {
      std::vector<float> row(32, 0.0f);
      row[7] = -std::ldexp(largest, e);
      EXPECT_EQ(quantise(format, row).scales[0], 127 + e);
      EXPECT_EQ(back(format, quantise(format, row), 32)[7], row[7]);
      row[7] = std::nextafter(row[7], -1e30f);
      EXPECT_EQ(quantise(format, row).scales[0], 128 + e);
    }
  }
}

TEST(Quantize, SpecialBlocksFollowTheContract) {
  for (const WeightFormat format : {WeightFormat::mxfp8, WeightFormat::mxfp4}) {
    std::vector<float> row(70, 0.0f);
    row[40] = std::nanf("");
    row[69] = 3.0f;
    const Quantised q = quantise(format, row);
    EXPECT_EQ(q.scales[0], 0);
    EXPECT_EQ(q.scales[1], 255);
    EXPECT_EQ(q.scales.size(), 3u);
    const std::vector<float> decoded = back(format, q, row.size());
    EXPECT_EQ(decoded[0], 0.0f);
    EXPECT_TRUE(std::isnan(decoded[32]) && std::isnan(decoded[63]));
    EXPECT_EQ(decoded[69], 3.0f);
  }
  std::vector<float> huge(32, std::numeric_limits<float>::max());
  EXPECT_EQ(quantise(WeightFormat::mxfp4, huge).scales[0], 127 + 127 - 2 + 1);
  huge[3] = std::numeric_limits<float>::denorm_min();
  EXPECT_EQ(back(WeightFormat::mxfp4, quantise(WeightFormat::mxfp4, huge), 32)[3], 0.0f);
}

TEST(Quantize, RoundTripStaysWithinHalfAStep) {
  std::mt19937_64 random(7);
  std::normal_distribution<float> normal;
  std::vector<float> row(576);
  for (float& x : row) x = normal(random);
  const std::vector<float> bf16 = back(WeightFormat::bf16, quantise(WeightFormat::bf16, row), row.size());
  for (const auto& [format, mantissa, emin] :
       {std::tuple{WeightFormat::mxfp8, 3, -6}, std::tuple{WeightFormat::mxfp4, 1, 0}}) {
    const Quantised q = quantise(format, row);
    const std::vector<float> decoded = back(format, q, row.size());
    for (std::size_t i = 0; i < row.size(); ++i) {
      EXPECT_LE(std::fabs(bf16[i] - row[i]), std::ldexp(std::fabs(row[i]), -8));
      const int scale = q.scales[i / 32] - 127;
      const int exponent = std::max(std::ilogb(row[i]) - scale, emin);
      EXPECT_LE(std::fabs(decoded[i] - row[i]), std::ldexp(0.5f, exponent - mantissa + scale)) << row[i];
    }
  }
}

TEST(Quantize, NamesAreReadBack) {
  WeightFormat format = WeightFormat::bf16;
  EXPECT_TRUE(parse_weight_format("mxfp4", &format));
  EXPECT_EQ(format, WeightFormat::mxfp4);
  EXPECT_FALSE(parse_weight_format("fp4", &format));
  EXPECT_EQ(format, WeightFormat::mxfp4);
}

}  // namespace
}  // namespace jal::llm
