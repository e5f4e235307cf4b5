// The runtime's weight tiles against the engines' own packer: equal bytes, for awkward shapes and awkward numbers.
#include "runtime/tensor/weight_tile.hpp"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "emulator/engines/weights.hpp"

namespace jal::rt {
namespace {

using Bytes = std::vector<std::uint8_t>;

emu::WeightFormat format_of(std::uint32_t dtype) {
  return dtype == JAL_DTYPE_BF16    ? emu::WeightFormat::bf16
         : dtype == JAL_DTYPE_MXFP8 ? emu::WeightFormat::mxfp8
                                    : emu::WeightFormat::mxfp4;
}

struct Case {
  std::uint32_t dtype, rows, k;
};

class WeightTileTest : public testing::TestWithParam<Case> {
 protected:
  // Every exponent, denormals, zeros of both signs, ties, and now and then what is not a number.
  std::vector<float> numbers(std::uint64_t count, bool with_nan) {
    std::vector<float> values(count);
    for (float& value : values) {
      switch (random_() % 8) {
        case 0:
          value = std::bit_cast<float>(static_cast<std::uint32_t>(random_()) & 0xff7fffffu);  // any finite pattern
          break;
        case 1:
          value = random_() % 2 != 0 ? 0.0f : -0.0f;
          break;
        case 2:
          value = static_cast<float>(static_cast<int>(random_() % 64) - 32) * 0.25f;  // ties of both formats
          break;
        default:
          value = std::ldexp(std::normal_distribution<float>(0, 1)(random_), static_cast<int>(random_() % 40) - 20);
      }
      if (with_nan && random_() % 97 == 0) value = random_() % 2 != 0 ? std::numeric_limits<float>::infinity() : NAN;
    }
    return values;
  }
  Bytes engine_tile(const std::vector<float>& values) {
    Bytes tile(emu::weight_tile_bytes(format_of(p().dtype), p().rows, p().k), 0xaa);
    emu::pack_f32(format_of(p().dtype), values.data(), p().k, p().rows, p().k, tile.data());
    return tile;
  }
  Bytes our_tile(const std::vector<float>& values) {
    const WeightTile tile(p().dtype, p().rows, p().k);
    Bytes bytes(tile.bytes, 0xbb);
    zero_padding(tile, bytes.data());
    for (std::uint64_t r = 0; r < p().rows; ++r) pack_row_f32(tile, r, values.data() + r * p().k, p().k, bytes.data());
    return bytes;
  }
  const Case& p() const { return GetParam(); }

  std::mt19937 random_{20261201};
};

class MxTileTest : public WeightTileTest {};

TEST_P(WeightTileTest, PackFloatsGivesTheEnginesBytes) {
  for (const bool with_nan : {false, true}) {
    const auto values = numbers(std::uint64_t{p().rows} * p().k, with_nan);
    ASSERT_EQ(our_tile(values), engine_tile(values));
  }
}

TEST_P(MxTileTest, PackCodesGivesTheEnginesBytes) {
  const WeightTile tile(p().dtype, p().rows, p().k);
  Bytes codes(p().rows * tile.row_bytes), scales(p().rows * tile.blocks);
  for (auto& code : codes) code = static_cast<std::uint8_t>(random_());
  for (auto& scale : scales) scale = static_cast<std::uint8_t>(random_());
  Bytes ours(tile.bytes, 0xbb);
  zero_padding(tile, ours.data());
  for (std::uint64_t r = 0; r < p().rows; ++r) {
    pack_row_codes(tile, r, codes.data() + r * tile.row_bytes, scales.data() + r * tile.blocks, p().k, ours.data());
  }
  // The engine's packer wants zeros beyond k; ours makes them.
  const bool is_mxfp8 = p().dtype == JAL_DTYPE_MXFP8;
  for (std::uint64_t r = 0; r < p().rows; ++r) {
    for (std::uint64_t i = p().k; i < tile.blocks * 32; ++i) {
      std::uint8_t& byte = codes[r * tile.row_bytes + (is_mxfp8 ? i : i / 2)];
      byte = static_cast<std::uint8_t>(is_mxfp8 ? 0 : i % 2 == 0 ? byte & 0xf0 : byte & 0x0f);
    }
  }
  Bytes engine(tile.bytes);
  emu::pack_mx(format_of(p().dtype), codes.data(), scales.data(), p().rows, p().k, engine.data());
  ASSERT_EQ(ours, engine);

  Bytes codes_back(codes.size()), scales_back(scales.size()), engine_codes(codes.size()), engine_scales(scales.size());
  emu::unpack_mx(format_of(p().dtype), engine.data(), p().rows, p().k, engine_codes.data(), engine_scales.data());
  for (std::uint64_t r = 0; r < p().rows; ++r) {
    unpack_row_codes(tile, r, ours.data(), codes_back.data() + r * tile.row_bytes,
                     scales_back.data() + r * tile.blocks);
  }
  EXPECT_EQ(codes_back, engine_codes);
  EXPECT_EQ(codes_back, codes);
  EXPECT_EQ(scales_back, engine_scales);
}

TEST_P(WeightTileTest, UnpackFloatsGivesTheEnginesValues) {
  const auto values = numbers(std::uint64_t{p().rows} * p().k, true);
  const Bytes bytes = engine_tile(values);
  std::vector<float> ours(values.size()), engine(values.size());
  const WeightTile tile(p().dtype, p().rows, p().k);
  for (std::uint64_t r = 0; r < p().rows; ++r) unpack_row_f32(tile, r, bytes.data(), p().k, ours.data() + r * p().k);
  emu::unpack_f32(format_of(p().dtype), bytes.data(), p().rows, p().k, engine.data(), p().k);
  for (std::size_t i = 0; i < ours.size(); ++i) {
    if (std::isnan(engine[i])) {
      ASSERT_TRUE(std::isnan(ours[i])) << i;
    } else {
      ASSERT_EQ(std::bit_cast<std::uint32_t>(ours[i]), std::bit_cast<std::uint32_t>(engine[i])) << i;
    }
  }
}

TEST_P(WeightTileTest, ShortRowsArePaddedWithZeros) {
  const std::uint64_t count = p().k / 2;
  auto values = numbers(p().k, false);
  const WeightTile tile(p().dtype, 1, p().k);
  Bytes ours(tile.bytes, 0xbb), whole(tile.bytes, 0xcc), none(tile.bytes, 0xdd);
  zero_padding(tile, ours.data());
  pack_row_f32(tile, 0, values.data(), count, ours.data());
  std::fill(values.begin() + static_cast<std::ptrdiff_t>(count), values.end(), 0.0f);
  zero_padding(tile, whole.data());
  pack_row_f32(tile, 0, values.data(), p().k, whole.data());
  EXPECT_EQ(ours, whole);
  zero_padding(tile, none.data());
  zero_row(tile, 0, none.data());
  EXPECT_EQ(none, Bytes(tile.bytes, 0));
}

std::string case_name(const testing::TestParamInfo<Case>& test) {
  const char* name = emu::weight_format_name(format_of(test.param.dtype));
  return name + ("_" + std::to_string(test.param.rows)) + "x" + std::to_string(test.param.k);
}

constexpr Case kPlain[] = {{JAL_DTYPE_BF16, 9, 576}, {JAL_DTYPE_BF16, 3, 33}, {JAL_DTYPE_BF16, 1, 1}};
constexpr Case kMx[] = {{JAL_DTYPE_MXFP8, 9, 576},   {JAL_DTYPE_MXFP8, 7, 65},  {JAL_DTYPE_MXFP8, 1, 1},
                        {JAL_DTYPE_MXFP8, 45, 2880}, {JAL_DTYPE_MXFP4, 9, 576}, {JAL_DTYPE_MXFP4, 7, 65},
                        {JAL_DTYPE_MXFP4, 1, 1},     {JAL_DTYPE_MXFP4, 5, 31},  {JAL_DTYPE_MXFP4, 45, 2880}};
INSTANTIATE_TEST_SUITE_P(Plain, WeightTileTest, testing::ValuesIn(kPlain), case_name);
INSTANTIATE_TEST_SUITE_P(Mx, WeightTileTest, testing::ValuesIn(kMx), case_name);
INSTANTIATE_TEST_SUITE_P(Mx, MxTileTest, testing::ValuesIn(kMx), case_name);

TEST(WeightTile, NoRowsHaveNoBytes) {
  for (const std::uint32_t dtype : {JAL_DTYPE_BF16, JAL_DTYPE_MXFP8, JAL_DTYPE_MXFP4}) {
    EXPECT_EQ(WeightTile(dtype, 0, 64).bytes, 0u);
  }
}

TEST(WeightTile, EveryE4M3AndE2M1CodeSurvivesAFloat) {
  const WeightTile fp8(JAL_DTYPE_MXFP8, 1, 256), fp4(JAL_DTYPE_MXFP4, 1, 32);
  Bytes bytes8(fp8.bytes), bytes4(fp4.bytes), codes(256), scales(8, 127), back(256), scales_back(8);
  for (std::size_t i = 0; i < 256; ++i) codes[i] = static_cast<std::uint8_t>((i & 0x7f) == 0x7f ? 0x7e : i);
  // Each block's largest value is 448, so that quantising chooses the scale 2^0 again.
  for (std::size_t b = 0; b < 8; ++b) codes[b * 32] = 0x7e;
  pack_row_codes(fp8, 0, codes.data(), scales.data(), 256, bytes8.data());
  std::vector<float> values(256);
  unpack_row_f32(fp8, 0, bytes8.data(), 256, values.data());
  pack_row_f32(fp8, 0, values.data(), 256, bytes8.data());
  unpack_row_codes(fp8, 0, bytes8.data(), back.data(), scales_back.data());
  EXPECT_EQ(back, codes);
  EXPECT_EQ(scales_back, scales);

  Bytes nibbles(16), back4(16);
  for (std::size_t i = 0; i < 16; ++i) nibbles[i] = static_cast<std::uint8_t>(i | (15 - i) << 4);
  pack_row_codes(fp4, 0, nibbles.data(), scales.data(), 32, bytes4.data());
  unpack_row_f32(fp4, 0, bytes4.data(), 32, values.data());
  pack_row_f32(fp4, 0, values.data(), 32, bytes4.data());
  unpack_row_codes(fp4, 0, bytes4.data(), back4.data(), scales_back.data());
  EXPECT_EQ(back4, nibbles);
}

}  // namespace
}  // namespace jal::rt
