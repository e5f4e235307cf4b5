// Weight tiles and MX quantisation: round trips, rounding rules, special values; the bracket's shape.
#include <gtest/gtest.h>

#include <cmath>

#include "emulator/engines/bracket.hpp"
#include "emulator/engines/quantize.hpp"
#include "emulator/engines/weights.hpp"
#include "tests/unit/emulator/engines/values.hpp"

namespace jal::emu {
namespace {

using test::Aligned;
using test::Character;
using test::random_values;

TEST(E2M1, RoundsToNearestEvenAndSaturates) {
  struct {
    float x;
    float expected;
  } constexpr kCases[] = {{0.25f, 0}, {0.250001f, 0.5f}, {0.75f, 1},  {1.25f, 1},   {1.75f, 2},
                          {2.5f, 2},  {3.5f, 4},         {5.0f, 4},   {5.1f, 6},    {7.0f, 6},
                          {1e30f, 6}, {0.1f, 0},         {1e-40f, 0}, {0.5f, 0.5f}, {3.0f, 3}};
  for (const auto& c : kCases) {
    EXPECT_EQ(f32_from_e2m1(e2m1_from_f32(c.x)), c.expected) << c.x;
    EXPECT_EQ(f32_from_e2m1(e2m1_from_f32(-c.x)), -c.expected) << c.x;
  }
  for (unsigned code = 0; code < 16; ++code) {
    EXPECT_EQ(e2m1_from_f32(f32_from_e2m1(static_cast<std::uint8_t>(code))), code);
  }
}

TEST(E4M3, EveryCodeSurvivesAndNeighboursRoundToTheNearest) {
  for (unsigned code = 0; code < 256; ++code) {
    if ((code & 0x7f) == 0x7f) {
      EXPECT_TRUE(std::isnan(f32_from_e4m3(static_cast<std::uint8_t>(code))));
      continue;
    }
    const float value = f32_from_e4m3(static_cast<std::uint8_t>(code));
    EXPECT_EQ(e4m3_from_f32(value), code);
    if ((code & 0x7f) >= 0x7e) continue;
    const float next = f32_from_e4m3(static_cast<std::uint8_t>(code + 1));
    const float middle = 0.5f * (value + next);
    EXPECT_EQ(e4m3_from_f32(middle), code % 2 == 0 ? code : code + 1) << "tie to even at " << middle;
    EXPECT_EQ(e4m3_from_f32(std::nextafter(middle, value)), code) << middle;
    EXPECT_EQ(e4m3_from_f32(std::nextafter(middle, next)), code + 1) << middle;
  }
  EXPECT_EQ(f32_from_e4m3(e4m3_from_f32(1e9f)), 448.0f);
  EXPECT_EQ(f32_from_e4m3(e4m3_from_f32(-std::numeric_limits<float>::infinity())), -448.0f);
}

TEST(E8m0, EndsOfTheRange) {
  EXPECT_EQ(f32_from_e8m0(0), 0x1p-127f);
  EXPECT_EQ(f32_from_e8m0(127), 1.0f);
  EXPECT_EQ(f32_from_e8m0(254), 0x1p127f);
  EXPECT_TRUE(std::isnan(f32_from_e8m0(255)));
}

TEST(Quantize, ScaleIsTheSmallestThatDoesNotClip) {
  std::mt19937 rng(1);
  for (int i = 0; i < 2000; ++i) {
    std::vector<float> x = random_values(32, i % 2 == 0 ? Character::ordinary : Character::wide, rng);
    std::uint8_t codes[32];
    std::uint8_t scale = 0;
    float amax = 0;
    for (const float v : x) amax = std::max(amax, std::abs(v));
    quantize_mxfp8(x.data(), 32, codes, &scale);
    EXPECT_LE(amax, 448.0f * f32_from_e8m0(scale));
    EXPECT_GT(amax, 448.0f * f32_from_e8m0(static_cast<std::uint8_t>(scale - 1)));
    for (int e = 0; e < 32; ++e) {
      const float back = f32_from_e4m3(codes[e]) * f32_from_e8m0(scale);
      EXPECT_LE(std::abs(back - x[e]), std::max(std::abs(x[e]) / 16, f32_from_e8m0(scale) * 0x1p-10f));
    }
    quantize_mxfp4(x.data(), 32, codes, &scale);
    EXPECT_LE(amax, 6.0f * f32_from_e8m0(scale));
    EXPECT_GT(amax, 6.0f * f32_from_e8m0(static_cast<std::uint8_t>(scale - 1)));
  }
}

TEST(Quantize, SpecialBlocks) {
  std::uint8_t codes[64];
  std::uint8_t scales[2];
  std::vector<float> x(40, 0.0f);
  x[35] = std::numeric_limits<float>::infinity();
  quantize_mxfp8(x.data(), 40, codes, scales);
  EXPECT_EQ(scales[0], 0);
  EXPECT_EQ(scales[1], 255);
  for (const std::uint8_t c : codes) EXPECT_EQ(c, 0);
  x.assign(32, 1e-40f);
  quantize_mxfp4(x.data(), 32, codes, scales);
  EXPECT_EQ(scales[0], 0) << "denormals fall on the smallest scale";
  x.assign(32, 3e38f);
  quantize_mxfp4(x.data(), 32, codes, scales);
  EXPECT_EQ(f32_from_e2m1(codes[0] & 15u) * f32_from_e8m0(scales[0]), 4.0f * 0x1p126f);
}

TEST(WeightTile, MxCodesAndScalesSurviveARoundTrip) {
  std::mt19937 rng(2);
  for (const WeightFormat format : {WeightFormat::mxfp8, WeightFormat::mxfp4}) {
    for (const std::uint32_t rows : {0u, 1u, 3u, 9u, 45u}) {
      for (const std::uint32_t k : {1u, 32u, 576u, 2880u}) {
        const std::size_t blocks = std::size_t{rows} * block_count(k);
        std::vector<std::uint8_t> codes(blocks * (format == WeightFormat::mxfp8 ? 32 : 16));
        std::vector<std::uint8_t> scales(blocks);
        for (std::uint8_t& c : codes) c = static_cast<std::uint8_t>(rng() % 127);
        for (std::uint8_t& s : scales) s = static_cast<std::uint8_t>(rng());
        Aligned tile(weight_tile_bytes(format, rows, k));
        pack_mx(format, codes.data(), scales.data(), rows, k, tile.get());
        std::vector<std::uint8_t> codes_back(codes.size());
        std::vector<std::uint8_t> scales_back(scales.size());
        unpack_mx(format, tile.get(), rows, k, codes_back.data(), scales_back.data());
        EXPECT_EQ(codes, codes_back);
        EXPECT_EQ(scales, scales_back);
      }
    }
  }
}

TEST(WeightTile, Bf16ValuesSurviveARoundTrip) {
  std::mt19937 rng(3);
  const std::uint32_t k = 45;
  std::vector<std::uint16_t> source(3 * 50);
  for (std::uint16_t& v : source) v = static_cast<std::uint16_t>(0x3f00 + rng() % 256);
  Aligned tile(weight_tile_bytes(WeightFormat::bf16, 3, k));
  pack_bf16(source.data(), 50, 3, k, tile.get());
  std::vector<float> back(3 * k);
  unpack_f32(WeightFormat::bf16, tile.get(), 3, k, back.data(), k);
  for (std::uint32_t r = 0; r < 3; ++r) {
    for (std::uint32_t i = 0; i < k; ++i) {
      std::uint32_t bits = 0;
      std::memcpy(&bits, &back[r * k + i], 4);
      EXPECT_EQ(bits, static_cast<std::uint32_t>(source[r * 50 + i]) << 16);
    }
  }
  EXPECT_EQ(weight_tile_bytes(WeightFormat::bf16, 3, k), 3u * 2 * 64);
}

TEST(Bracket, PanelsDifferByOneBlockAndSubtreesSplitAlike) {
  for (std::uint32_t blocks = 0; blocks < 300; ++blocks) {
    const PanelSplit whole = split_panels(blocks);
    EXPECT_EQ(whole.first[0], 0u);
    EXPECT_EQ(whole.first[kPanels], blocks);
    for (std::uint32_t p = 0; p < kPanels; ++p) {
      const std::uint32_t size = whole.first[p + 1] - whole.first[p];
      EXPECT_GE(size, blocks / kPanels);
      EXPECT_LE(size, (blocks + kPanels - 1) / kPanels);
    }
    for (std::uint32_t width = 1; width < kPanels; width *= 2) {
      for (std::uint32_t p = 0; p < kPanels; p += width) {
        const PanelSplit part = split_panels(whole.first[p + width] - whole.first[p], width);
        for (std::uint32_t i = 0; i <= width; ++i) EXPECT_EQ(part.first[i] + whole.first[p], whole.first[p + i]);
      }
    }
  }
}

TEST(Bracket, SumFollowsTheTreeAndSkipsEmptyLeaves) {
  // 1e8 + 1 loses the one in FP32, so the value tells the order: five leaves are ((a + b) + c) + (d + e).
  const float a = 1e8f;
  const float b = 1.0f;
  const float c = -1e8f;
  const float d = 3.0f;
  const float e = 4.0f;
  const float* leaves[5] = {&a, &b, &c, &d, &e};
  float sum = 0;
  bracket_sum(leaves, 5, 1, &sum);
  EXPECT_EQ(sum, 7.0f);
  leaves[0] = nullptr;
  bracket_sum(leaves, 5, 1, &sum);
  EXPECT_EQ(sum, ((1.0f + -1e8f) + 7.0f));
  const float minus_zero = -0.0f;
  const float* one[3] = {nullptr, &minus_zero, nullptr};
  bracket_sum(one, 3, 1, &sum);
  EXPECT_TRUE(std::signbit(sum));
  bracket_sum(nullptr, 0, 1, &sum);
  EXPECT_EQ(sum, 0.0f);
}

}  // namespace
}  // namespace jal::emu
