// The matrix engine: equal bits on every instruction set, equal bits for every split, accuracy against double.
#include "emulator/engines/matrix.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdio>

#include "emulator/engines/bracket.hpp"
#include "tests/unit/emulator/engines/every_isa.hpp"
#include "tests/unit/emulator/engines/values.hpp"

namespace jal::emu {
namespace {

using test::Aligned;
using test::Character;
using test::random_values;
using test::same_bits;

struct Pair {
  WeightFormat weights;
  ActivationFormat activations;
};
constexpr Pair kPairs[] = {{WeightFormat::bf16, ActivationFormat::f32},
                           {WeightFormat::bf16, ActivationFormat::bf16},
                           {WeightFormat::mxfp8, ActivationFormat::bf16},
                           {WeightFormat::mxfp4, ActivationFormat::bf16}};

/// A tile of random codes (every code occurs) and, for MX, scales near one, some of them special.
Aligned random_tile(WeightFormat format, std::uint32_t rows, std::uint32_t k, Character character, std::mt19937& rng) {
  Aligned tile(weight_tile_bytes(format, rows, k) + 64);
  if (format == WeightFormat::bf16) {
    const std::vector<float> w = random_values(std::size_t{rows} * k, character, rng);
    pack_f32(format, w.data(), k, rows, k, tile.get());
    return tile;
  }
  const std::uint32_t blocks = block_count(k);
  const std::size_t block_bytes = format == WeightFormat::mxfp8 ? 32 : 16;
  std::vector<std::uint8_t> codes(std::size_t{rows} * blocks * block_bytes);
  std::vector<std::uint8_t> scales(std::size_t{rows} * blocks);
  for (std::uint8_t& c : codes) {
    c = static_cast<std::uint8_t>(rng());
    if (character != Character::special && format == WeightFormat::mxfp8 && (c & 0x7f) == 0x7f) c = 1;
  }
  for (std::uint8_t& s : scales) {
    s = static_cast<std::uint8_t>(120 + rng() % 12);
    if (character == Character::tiny) s = static_cast<std::uint8_t>(40 + rng() % 12);
    if (character == Character::special) {
      constexpr std::uint8_t kSpecial[] = {0, 1, 254, 255, 250};
      const std::uint32_t choice = static_cast<std::uint32_t>(rng() % 40);
      if (choice < 5) s = kSpecial[choice];
    }
  }
  pack_mx(format, codes.data(), scales.data(), rows, k, tile.get());
  return tile;
}

std::vector<float> run(Pair pair, const void* tile, std::uint32_t rows, std::uint32_t k, const std::vector<float>& x,
                       std::uint32_t m, std::uint32_t panels = kPanels) {
  Aligned operand(operand_bytes(pair.activations, k, m));
  const Operand* prepared = prepare_operand(pair.activations, x.data(), k, k, m, operand.get());
  const std::size_t stride = rows + 3;
  std::vector<float> y(m * stride, -77.0f);
  gemm(pair.weights, pair.activations, tile, rows, k, prepared, m, y.data(), stride, panels);
  return y;
}

struct Shape {
  std::uint32_t rows, k, m;
};
constexpr Shape kShapes[] = {{9, 576, 1},  {3, 576, 7}, {45, 576, 33}, {9, 1536, 2}, {1, 2880, 1},  {9, 2880, 7},
                             {45, 64, 33}, {3, 1, 1},   {9, 1, 33},    {24, 31, 6},  {7, 33, 16},   {13, 200, 21},
                             {0, 64, 3},   {3, 64, 0},  {25, 100, 5},  {70, 96, 1},  {16, 320, 15}, {5, 255, 130}};

TEST(Matrix, EveryInstructionSetGivesTheScalarBits) {
  const test::TableScope scope;
  std::string names;
  for (const test::NamedTable& t : test::every_table()) names += (names.empty() ? "" : ", ") + t.name;
  std::printf("kernel tables run: %s\n", names.c_str());
  std::mt19937 rng(12345);
  for (const Character character : {Character::ordinary, Character::wide, Character::tiny, Character::special}) {
    for (const Pair pair : kPairs) {
      for (const Shape& shape : kShapes) {
        const Aligned tile = random_tile(pair.weights, shape.rows, shape.k, character, rng);
        const std::vector<float> x = random_values(std::size_t{shape.m} * shape.k, character, rng);
        std::vector<float> expected;
        for (const test::NamedTable& t : test::every_table()) {
          select_table(*t.table);
          const std::vector<float> y = run(pair, tile.get(), shape.rows, shape.k, x, shape.m);
          if (t.table == &kScalarKernels) {
            expected = y;
            continue;
          }
          ASSERT_TRUE(same_bits(expected, y))
              << t.name << " " << weight_format_name(pair.weights) << " x " << activation_format_name(pair.activations)
              << " rows " << shape.rows << " k " << shape.k << " m " << shape.m << " character "
              << static_cast<int>(character);
        }
      }
    }
  }
}

TEST(Matrix, PanelsOverChipsAddUpToTheWholeBits) {
  const test::TableScope scope;
  std::mt19937 rng(7);
  for (const test::NamedTable& t : test::every_table()) {
    select_table(*t.table);
    for (const Pair pair : kPairs) {
      for (const std::uint32_t k : {576u, 2880u, 1536u, 100u, 33u}) {
        const std::uint32_t rows = 5;
        const std::uint32_t m = 7;
        std::vector<float> w = random_values(std::size_t{rows} * k, Character::wide, rng);
        const std::vector<float> x = random_values(std::size_t{m} * k, Character::wide, rng);
        Aligned tile(weight_tile_bytes(pair.weights, rows, k));
        pack_f32(pair.weights, w.data(), k, rows, k, tile.get());
        const std::vector<float> whole = run(pair, tile.get(), rows, k, x, m);
        for (const std::uint32_t chips : {2u, 4u, 8u}) {
          std::vector<std::vector<float>> parts(chips);
          std::vector<const float*> leaves(chips, nullptr);
          for (std::uint32_t c = 0; c < chips; ++c) {
            const ElementRange range = panel_range(k, c * kPanels / chips, (c + 1) * kPanels / chips);
            const std::uint32_t share = range.end - range.begin;
            if (share == 0) continue;
            std::vector<float> x_share;
            for (std::uint32_t i = 0; i < m; ++i) {
              x_share.insert(x_share.end(), x.begin() + i * k + range.begin, x.begin() + i * k + range.end);
            }
            Aligned piece(weight_tile_bytes(pair.weights, rows, share));
            pack_f32(pair.weights, w.data() + range.begin, k, rows, share, piece.get());
            parts[c] = run(pair, piece.get(), rows, share, x_share, m, kPanels / chips);
            leaves[c] = parts[c].data();
          }
          std::vector<float> sum(whole.size());
          bracket_sum(leaves.data(), chips, static_cast<std::uint32_t>(sum.size()), sum.data());
          // The gaps between rows hold a mark in every part; compare the results only.
          for (std::uint32_t i = 0; i < m; ++i) {
            for (std::uint32_t r = rows; r < rows + 3; ++r) sum[i * (rows + 3) + r] = -77.0f;
          }
          EXPECT_TRUE(same_bits(whole, sum)) << t.name << " k " << k << " chips " << chips;
        }
      }
    }
  }
}

TEST(Matrix, RowsAndTokensInAnyPortionsGiveTheSameBits) {
  const test::TableScope scope;
  std::mt19937 rng(8);
  const std::uint32_t k = 576;
  const std::uint32_t m = 40;
  const std::uint32_t rows = 29;
  for (const test::NamedTable& t : test::every_table()) {
    select_table(*t.table);
    for (const Pair pair : kPairs) {
      const std::vector<float> w = random_values(std::size_t{rows} * k, Character::ordinary, rng);
      const std::vector<float> x = random_values(std::size_t{m} * k, Character::ordinary, rng);
      Aligned tile(weight_tile_bytes(pair.weights, rows, k));
      pack_f32(pair.weights, w.data(), k, rows, k, tile.get());
      const std::vector<float> whole = run(pair, tile.get(), rows, k, x, m);
      for (const std::uint32_t first : {0u, 3u, 20u}) {
        const std::uint32_t some = first == 20 ? 9 : 11;
        Aligned piece(weight_tile_bytes(pair.weights, some, k));
        pack_f32(pair.weights, w.data() + first * k, k, some, k, piece.get());
        for (const std::uint32_t token : {0u, 17u, 39u}) {
          const std::uint32_t tokens = token == 39 ? 1 : 19;
          const std::vector<float> x_part(x.begin() + token * k, x.begin() + (token + tokens) * k);
          const std::vector<float> part = run(pair, piece.get(), some, k, x_part, tokens);
          for (std::uint32_t i = 0; i < tokens; ++i) {
            const std::vector<float> got(part.begin() + i * (some + 3), part.begin() + i * (some + 3) + some);
            const auto at = whole.begin() + (token + i) * (rows + 3) + first;
            ASSERT_TRUE(same_bits(std::vector<float>(at, at + some), got)) << t.name << " first row " << first;
          }
        }
      }
    }
  }
}

TEST(Matrix, ResultsAreCloseToDouble) {
  std::mt19937 rng(9);
  for (const Pair pair : kPairs) {
    for (const std::uint32_t k : {64u, 576u, 2880u}) {
      const std::uint32_t rows = 9;
      const std::uint32_t m = 8;
      std::vector<float> w = random_values(std::size_t{rows} * k, Character::ordinary, rng);
      std::vector<float> x = random_values(std::size_t{m} * k, Character::ordinary, rng);
      Aligned tile(weight_tile_bytes(pair.weights, rows, k));
      pack_f32(pair.weights, w.data(), k, rows, k, tile.get());
      unpack_f32(pair.weights, tile.get(), rows, k, w.data(), k);
      const std::vector<float> y = run(pair, tile.get(), rows, k, x, m);
      for (std::uint32_t t = 0; t < m; ++t) {
        for (std::uint32_t r = 0; r < rows; ++r) {
          double sum = 0;
          double magnitude = 0;
          for (std::uint32_t i = 0; i < k; ++i) {
            double a = static_cast<double>(x[t * k + i]);
            if (pair.activations == ActivationFormat::bf16) {
              // Rounding to BF16 written with double arithmetic, apart from the engine's integer form.
              const int e = std::ilogb(a) - 7;
              a = std::ldexp(std::nearbyint(std::ldexp(a, -e)), e);
            }
            sum += a * static_cast<double>(w[r * k + i]);
            magnitude += std::abs(a * static_cast<double>(w[r * k + i]));
          }
          EXPECT_NEAR(sum, static_cast<double>(y[t * (rows + 3) + r]), magnitude * 3e-7)
              << weight_format_name(pair.weights) << " k " << k;
        }
      }
    }
  }
}

TEST(Matrix, MxWeightsGiveTheBitsOfTheirBf16Values) {
  const test::TableScope scope;
  std::mt19937 rng(10);
  const std::uint32_t rows = 11;
  const std::uint32_t k = 320;
  const std::uint32_t m = 19;
  for (const test::NamedTable& t : test::every_table()) {
    select_table(*t.table);
    for (const WeightFormat format : {WeightFormat::mxfp8, WeightFormat::mxfp4}) {
      const std::vector<float> w = random_values(std::size_t{rows} * k, Character::wide, rng);
      const std::vector<float> x = random_values(std::size_t{m} * k, Character::ordinary, rng);
      Aligned tile(weight_tile_bytes(format, rows, k));
      pack_f32(format, w.data(), k, rows, k, tile.get());
      std::vector<float> values(std::size_t{rows} * k);
      unpack_f32(format, tile.get(), rows, k, values.data(), k);
      Aligned plain(weight_tile_bytes(WeightFormat::bf16, rows, k));
      pack_f32(WeightFormat::bf16, values.data(), k, rows, k, plain.get());
      EXPECT_TRUE(same_bits(run({WeightFormat::bf16, ActivationFormat::bf16}, plain.get(), rows, k, x, m),
                            run({format, ActivationFormat::bf16}, tile.get(), rows, k, x, m)))
          << t.name << " " << weight_format_name(format);
    }
  }
}

TEST(Matrix, NotANumberInAScaleOrCodeReachesItsRowOnly) {
  const std::uint32_t k = 64;
  std::vector<std::uint8_t> codes(3 * 64, 0x38);
  std::vector<std::uint8_t> scales(3 * 2, 127);
  codes[64 + 5] = 0xff;
  scales[5] = 255;
  Aligned tile(weight_tile_bytes(WeightFormat::mxfp8, 3, k));
  pack_mx(WeightFormat::mxfp8, codes.data(), scales.data(), 3, k, tile.get());
  const std::vector<float> y =
      run({WeightFormat::mxfp8, ActivationFormat::bf16}, tile.get(), 3, k, std::vector<float>(k, 0.5f), 1);
  EXPECT_EQ(y[0], 32.0f);
  EXPECT_TRUE(std::isnan(y[1]));
  EXPECT_TRUE(std::isnan(y[2]));
}

TEST(Matrix, EveryScaleUpToALimitGivesTheScalarBits) {
  // Kernels choose a decoder by the tile's largest scale; small scales make weights that are flushed.
  const test::TableScope scope;
  std::mt19937 rng(99);
  constexpr std::uint32_t kRows = 9;
  for (const std::uint32_t k : {64u, 576u, 1536u}) {
    for (const std::uint32_t largest : {17u, 31u, 142u, 143u, 254u}) {
      const std::size_t blocks = std::size_t{kRows} * block_count(k);
      std::vector<std::uint8_t> codes(blocks * 32);
      std::vector<std::uint8_t> scales(blocks);
      for (std::uint8_t& c : codes) {
        c = static_cast<std::uint8_t>(rng());
        // As many without an exponent as with one; no NaN.
        if (rng() % 2 == 0) c &= 0x87;
        if ((c & 0x7f) == 0x7f) c = 1;
      }
      for (std::uint8_t& s : scales) s = static_cast<std::uint8_t>(rng() % (largest + 1));
      scales[rng() % blocks] = static_cast<std::uint8_t>(largest);
      Aligned tile(weight_tile_bytes(WeightFormat::mxfp8, kRows, k));
      pack_mx(WeightFormat::mxfp8, codes.data(), scales.data(), kRows, k, tile.get());
      // Large where weights are small, so that what is flushed or not makes the result.
      std::vector<float> x = random_values(k, Character::ordinary, rng);
      for (float& v : x) v = std::ldexp(v, static_cast<int>(127 - largest / 2) - 20);
      std::vector<float> expected;
      for (const test::NamedTable& t : test::every_table()) {
        select_table(*t.table);
        const std::vector<float> y = run({WeightFormat::mxfp8, ActivationFormat::bf16}, tile.get(), kRows, k, x, 1);
        if (t.table == &kScalarKernels) {
          expected = y;
          continue;
        }
        ASSERT_TRUE(same_bits(expected, y)) << t.name << " k " << k << " largest scale " << largest;
      }
    }
  }
}

TEST(MatrixDeathTest, OperandOfAnotherShapeIsADefect) {
  Aligned tile(weight_tile_bytes(WeightFormat::bf16, 1, 64));
  Aligned operand(operand_bytes(ActivationFormat::f32, 64, 1));
  const std::vector<float> x(64, 1.0f);
  const Operand* prepared = prepare_operand(ActivationFormat::f32, x.data(), 64, 64, 1, operand.get());
  float y = 0;
  EXPECT_DEATH(gemm(WeightFormat::bf16, ActivationFormat::f32, tile.get(), 1, 32, prepared, 1, &y, 1), "operand k");
  EXPECT_DEATH(gemm(WeightFormat::mxfp4, ActivationFormat::f32, tile.get(), 1, 64, prepared, 1, &y, 1),
               "no such activation format");
}

}  // namespace
}  // namespace jal::emu
