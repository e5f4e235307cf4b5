// The vector engine: equal bits on every instruction set, accuracy of its functions, quantisation rules.
#include "emulator/engines/vector.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "jal/kernel/math.hpp"
#include "tests/unit/emulator/engines/every_isa.hpp"
#include "tests/unit/emulator/engines/values.hpp"

namespace jal::emu {
namespace {

using test::Character;
using test::random_values;
using test::same_bits;

using Values = std::vector<float>;

struct Function {
  const char* name;
  std::function<void(const Values& a, const Values& b, const Values& c, Values& out)> run;
};

const std::vector<Function>& functions() {
  static const std::vector<Function> list = {
      {"add", [](auto& a, auto& b, auto&, auto& o) { vec_add(a.data(), b.data(), o.data(), a.size()); }},
      {"sub", [](auto& a, auto& b, auto&, auto& o) { vec_sub(a.data(), b.data(), o.data(), a.size()); }},
      {"mul", [](auto& a, auto& b, auto&, auto& o) { vec_mul(a.data(), b.data(), o.data(), a.size()); }},
      {"fma", [](auto& a, auto& b, auto& c, auto& o) { vec_fma(a.data(), b.data(), c.data(), o.data(), a.size()); }},
      {"axpy", [](auto& a, auto& b, auto&, auto& o) { vec_axpy(1.7f, a.data(), b.data(), o.data(), a.size()); }},
      {"scale", [](auto& a, auto&, auto&, auto& o) { vec_scale(-0.3f, a.data(), o.data(), a.size()); }},
      {"exp", [](auto& a, auto&, auto&, auto& o) { vec_exp(a.data(), o.data(), a.size()); }},
      {"silu", [](auto& a, auto&, auto&, auto& o) { vec_silu(a.data(), o.data(), a.size()); }},
      {"swiglu", [](auto& a, auto& b, auto&, auto& o) { vec_swiglu(a.data(), b.data(), o.data(), a.size()); }},
      {"rmsnorm", [](auto& a, auto& b, auto&, auto& o) { vec_rmsnorm(a.data(), b.data(), 1e-5f, o.data(), a.size()); }},
      {"rmsnorm without weight",
       [](auto& a, auto&, auto&, auto& o) { vec_rmsnorm(a.data(), nullptr, 1e-5f, o.data(), a.size()); }},
      {"softmax", [](auto& a, auto&, auto&, auto& o) { vec_softmax(a.data(), o.data(), a.size()); }},
      {"rope pairs",
       [](auto& a, auto& b, auto& c, auto& o) {
         vec_rope_pairs(a.data(), b.data(), c.data(), o.data(), a.size() / 2);
       }},
      {"rope halves",
       [](auto& a, auto& b, auto& c, auto& o) {
         vec_rope_halves(a.data(), b.data(), c.data(), o.data(), a.size() / 2);
       }},
      {"reductions",
       [](auto& a, auto&, auto&, auto& o) {
         if (o.size() < 3) return;
         o[0] = vec_sum(a.data(), a.size());
         o[1] = vec_sum_squares(a.data(), a.size());
         o[2] = vec_max(a.data(), a.size());
       }},
      {"bf16", [](auto& a, auto&, auto&, auto& o) {
         std::vector<std::uint16_t> half(a.size());
         vec_bf16_from_f32(a.data(), half.data(), a.size());
         vec_f32_from_bf16(half.data(), o.data(), a.size());
       }}};
  return list;
}

TEST(Vector, EveryInstructionSetGivesTheScalarBits) {
  const test::TableScope scope;
  std::mt19937 rng(31);
  for (const Character character : {Character::ordinary, Character::wide, Character::tiny, Character::special}) {
    for (const std::size_t n : {0u, 1u, 2u, 15u, 16u, 17u, 64u, 100u, 576u, 2881u}) {
      const Values a = random_values(n, character, rng);
      const Values b = random_values(n, character, rng);
      const Values c = random_values(n, character, rng);
      for (const Function& function : functions()) {
        Values expected(n, 3.0f);
        for (const test::NamedTable& t : test::every_table()) {
          select_table(*t.table);
          Values out(n, 3.0f);
          function.run(a, b, c, out);
          if (t.table == &kScalarKernels) {
            expected = out;
            continue;
          }
          ASSERT_TRUE(same_bits(expected, out))
              << t.name << " " << function.name << " n " << n << " character " << static_cast<int>(character);
        }
      }
    }
  }
}

TEST(Vector, OutputMayBeAnInput) {
  const test::TableScope scope;
  std::mt19937 rng(32);
  for (const test::NamedTable& t : test::every_table()) {
    select_table(*t.table);
    const Values a = random_values(77, Character::ordinary, rng);
    const Values b = random_values(77, Character::ordinary, rng);
    Values apart(76);
    Values same(a.begin(), a.begin() + 76);
    vec_rope_pairs(a.data(), b.data(), b.data(), apart.data(), 38);
    vec_rope_pairs(same.data(), b.data(), b.data(), same.data(), 38);
    EXPECT_TRUE(same_bits(apart, same)) << t.name;
    Values sum(77);
    Values in_place = a;
    vec_softmax(a.data(), sum.data(), 77);
    vec_softmax(in_place.data(), in_place.data(), 77);
    EXPECT_TRUE(same_bits(sum, in_place)) << t.name;
  }
}

/// Distance in units of the last place of the exact value rounded to FP32.
double ulps(double exact, float got) {
  int exponent = 0;
  std::frexp(exact, &exponent);
  return std::abs(exact - static_cast<double>(got)) / std::ldexp(1.0, std::max(exponent, -125) - 24);
}

TEST(Math, ExpStaysWithinItsStatedError) {
  double worst = 0;
  for (double x = -87.3; x < 88.7; x += 0.000377) {
    const float f = static_cast<float>(x);
    worst = std::max(worst, ulps(std::exp(static_cast<double>(f)), kernel::exp_f32(f)));
  }
  std::printf("exp: largest error %.3f ulp\n", worst);
  EXPECT_LT(worst, 1.1);
  EXPECT_EQ(kernel::exp_f32(0.0f), 1.0f);
  EXPECT_EQ(kernel::exp_f32(-1000.0f), 0.0f);
  EXPECT_EQ(kernel::exp_f32(1000.0f), std::numeric_limits<float>::infinity());
  EXPECT_TRUE(std::isnan(kernel::exp_f32(std::numeric_limits<float>::quiet_NaN())));
  // The ends of the range: the largest finite argument and the smallest that is not flushed.
  EXPECT_LT(ulps(std::exp(static_cast<double>(kernel::kExpUpper)), kernel::exp_f32(kernel::kExpUpper)), 1.1);
  EXPECT_LT(ulps(std::exp(static_cast<double>(kernel::kExpLower)), kernel::exp_f32(kernel::kExpLower)), 1.1);
}

TEST(Math, SquareRootIsCorrectlyRounded) {
  std::mt19937 rng(33);
  for (int i = 0; i < 200000; ++i) {
    const float x = kernel::float_of(static_cast<std::uint32_t>(rng() % 0x7f800000u));
    ASSERT_EQ(kernel::bits_of(kernel::sqrt_f32(x)), kernel::bits_of(std::sqrt(x))) << x;
  }
  EXPECT_TRUE(std::isnan(kernel::sqrt_f32(-1.0f)));
  EXPECT_EQ(kernel::bits_of(kernel::sqrt_f32(-0.0f)), 0x80000000u);
  EXPECT_EQ(kernel::sqrt_f32(std::numeric_limits<float>::infinity()), std::numeric_limits<float>::infinity());
}

TEST(Math, SoftwareFusedMultiplyAddRoundsOnce) {
  std::mt19937 rng(34);
  for (int i = 0; i < 300000; ++i) {
    // Products and addends of like size, so that cancellation and sticky bits occur; all exponents now and then.
    const auto draw = [&](std::uint32_t low, std::uint32_t span) {
      return kernel::float_of(static_cast<std::uint32_t>(rng() & 0x807fffffu) |
                              static_cast<std::uint32_t>(low + rng() % span) << 23);
    };
    const bool wide = i % 4 == 0;
    const float a = wide ? draw(0, 255) : draw(120, 14);
    const float b = wide ? draw(0, 255) : draw(120, 14);
    const float c = wide ? draw(0, 255) : draw(112, 30);
    const float got = static_cast<float>(kernel::fma_to_odd(a, b, c));
    ASSERT_EQ(kernel::bits_of(std::fma(a, b, c)), kernel::bits_of(got)) << a << " " << b << " " << c;
  }
}

TEST(Math, SineAndCosineOfPositionsAreExactToSinglePrecision) {
  double worst = 0;
  std::mt19937 rng(35);
  for (int i = 0; i < 200000; ++i) {
    const double x = static_cast<double>(rng() % 1048576) + static_cast<double>(rng()) * 0x1p-32;
    double s = 0;
    double c = 0;
    kernel::sincos_f64(x, &s, &c);
    worst = std::max({worst, std::abs(s - std::sin(x)), std::abs(c - std::cos(x))});
  }
  std::printf("sin, cos below 2^20: largest absolute error %.2e\n", worst);
  EXPECT_LT(worst, 1e-15);
  worst = 0;
  for (int i = 0; i < 20000; ++i) {
    const double x = static_cast<double>(rng() % (1u << 30));
    double s = 0;
    double c = 0;
    kernel::sincos_f64(x, &s, &c);
    worst = std::max({worst, std::abs(s - std::sin(x)), std::abs(c - std::cos(x))});
  }
  EXPECT_LT(worst, 1e-7) << "beyond 2^20";
}

TEST(Math, ExponentialAndLogarithmInDoubleAreNearlyExact) {
  for (double x = -50; x < 50; x += 0.0137) {
    EXPECT_NEAR(kernel::exp_f64(x) / std::exp(x), 1.0, 4e-16) << x;
    EXPECT_NEAR(kernel::log_f64(std::exp(x)), x, 1e-14) << x;
  }
}

TEST(RopeTable, RowsHoldTheRotationOfTheirPosition) {
  float c[32];
  float s[32];
  rope_table(0, 10000.0, 64, c, s);
  for (int i = 0; i < 32; ++i) {
    EXPECT_EQ(c[i], 1.0f);
    EXPECT_EQ(s[i], 0.0f);
  }
  rope_table(777, 100000.0, 64, c, s);
  for (int i = 0; i < 32; ++i) {
    const double angle = 777.0 * std::pow(100000.0, -2.0 * i / 64.0);
    EXPECT_NEAR(static_cast<double>(c[i]), std::cos(angle), 6.1e-8);
    EXPECT_NEAR(static_cast<double>(s[i]), std::sin(angle), 6.1e-8);
  }
}

TEST(Argmax, LowestIndexOfEqualValuesWins) {
  const test::TableScope scope;
  for (const test::NamedTable& t : test::every_table()) {
    select_table(*t.table);
    Values x(100, 1.0f);
    x[40] = x[17] = x[99] = 2.0f;
    x[3] = std::numeric_limits<float>::quiet_NaN();
    EXPECT_EQ(vec_argmax(x.data(), x.size()), 17u) << t.name;
    EXPECT_EQ(vec_argmax(Values(5, std::numeric_limits<float>::quiet_NaN()).data(), 5), 0u);
    EXPECT_EQ(vec_argmax(Values{-0.0f, 0.0f}.data(), 2), 0u);
    EXPECT_EQ(vec_argmax(Values(4, -std::numeric_limits<float>::infinity()).data(), 4), 0u);
  }
}

TEST(TopK, OrdersByValueThenIndexAndPutsNanLast) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const Values x = {1.0f, 5.0f, nan, 5.0f, -2.0f, 0.0f, -0.0f};
  std::uint32_t index[7];
  float value[7];
  vec_top_k(x.data(), x.size(), 7, index, value);
  const std::uint32_t expected[7] = {1, 3, 0, 5, 6, 4, 2};
  for (int i = 0; i < 7; ++i) EXPECT_EQ(index[i], expected[i]) << i;
  vec_top_k(x.data(), x.size(), 2, index, value);
  EXPECT_EQ(index[0], 1u);
  EXPECT_EQ(index[1], 3u);
  EXPECT_EQ(value[1], 5.0f);
}

}  // namespace
}  // namespace jal::emu
