// Attention over pages: equal bits on every instruction set and for every distribution; accuracy against double.
#include "emulator/engines/attention.hpp"

#include <gtest/gtest.h>

#include <cmath>

#include "jal/kernel/math.hpp"
#include "tests/unit/emulator/engines/every_isa.hpp"
#include "tests/unit/emulator/engines/values.hpp"

namespace jal::emu {
namespace {

using test::Character;
using test::random_values;
using test::same_bits;

struct Parts {
  std::vector<float> m, l, o;
  Parts(std::uint32_t rows, std::uint32_t d) : m(rows, 9.0f), l(rows, 9.0f), o(std::size_t{rows} * d, 9.0f), d_(d) {}
  SoftmaxParts view() { return {m.data(), l.data(), o.data(), d_}; }

 private:
  std::uint32_t d_;
};

std::vector<std::uint16_t> to_bf16(const std::vector<float>& x) {
  std::vector<std::uint16_t> out(x.size());
  for (std::size_t i = 0; i < x.size(); ++i) out[i] = kernel::bf16_from_f32(x[i]);
  return out;
}

struct Case {
  std::uint32_t rows, d, tokens;
  bool causal;
};
constexpr Case kCases[] = {{3, 64, 64, false}, {8, 64, 16, false}, {1, 64, 1, false},  {3, 64, 0, false},
                           {9, 64, 37, true},  {5, 80, 33, true},  {2, 128, 64, true}, {4, 33, 7, false},
                           {7, 1, 20, true},   {26, 96, 50, true}, {1, 512, 5, false}, {15, 48, 17, true}};

TEST(Attention, EveryInstructionSetGivesTheScalarBits) {
  const test::TableScope scope;
  std::mt19937 rng(21);
  for (const Character character : {Character::ordinary, Character::wide, Character::tiny, Character::special}) {
    for (const Case& c : kCases) {
      const std::vector<float> q = random_values(std::size_t{c.rows} * c.d, character, rng);
      const auto keys = to_bf16(random_values(std::size_t{c.tokens} * (c.d + 5), character, rng));
      const auto values = to_bf16(random_values(std::size_t{c.tokens} * (c.d + 2), character, rng));
      std::vector<std::uint32_t> visible(c.rows);
      for (std::uint32_t& v : visible) v = static_cast<std::uint32_t>(rng() % (c.tokens + 3));
      const Queries queries{q.data(), c.d, c.rows, c.d, c.causal ? visible.data() : nullptr, 0.125f};
      const KvPage page{keys.data(), values.data(), c.d + 5, c.d + 2, c.tokens};
      Parts expected(c.rows, c.d);
      for (const test::NamedTable& t : test::every_table()) {
        select_table(*t.table);
        Parts got(c.rows, c.d);
        attention_page(queries, page, got.view());
        if (t.table == &kScalarKernels) {
          expected = got;
          continue;
        }
        const std::string where = t.name + " rows " + std::to_string(c.rows) + " d " + std::to_string(c.d) +
                                  " tokens " + std::to_string(c.tokens) + " character " +
                                  std::to_string(static_cast<int>(character));
        ASSERT_TRUE(same_bits(expected.m, got.m)) << where << " m";
        ASSERT_TRUE(same_bits(expected.l, got.l)) << where << " l";
        ASSERT_TRUE(same_bits(expected.o, got.o)) << where << " o";
      }
    }
  }
}

TEST(Attention, NoVisibleTokenGivesTheEmptyResult) {
  const std::vector<float> q(64, 1.0f);
  Parts parts(1, 64);
  attention_page({q.data(), 64, 1, 64, nullptr, 1.0f}, {nullptr, nullptr, 64, 64, 0}, parts.view());
  EXPECT_EQ(parts.m[0], -std::numeric_limits<float>::infinity());
  EXPECT_EQ(parts.l[0], 0.0f);
  for (const float v : parts.o) EXPECT_EQ(v, 0.0f);
  std::vector<float> y(64, 5.0f);
  softmax_finish(parts.view(), 1, 64, y.data(), 64);
  for (const float v : y) EXPECT_EQ(v, 0.0f);
}

TEST(Attention, TokensThatARowDoesNotSeeCannotReachIt) {
  const std::uint32_t d = 64;
  const std::uint32_t tokens = 20;
  std::mt19937 rng(3);
  const std::vector<float> q = random_values(2 * d, Character::ordinary, rng);
  auto keys = to_bf16(random_values(tokens * d, Character::ordinary, rng));
  auto values = to_bf16(random_values(tokens * d, Character::ordinary, rng));
  const std::uint32_t visible[2] = {7, 20};
  const auto run = [&] {
    Parts parts(2, d);
    attention_page({q.data(), d, 2, d, visible, 0.125f}, {keys.data(), values.data(), d, d, tokens}, parts.view());
    return parts;
  };
  const Parts before = run();
  for (std::uint32_t i = 7 * d; i < tokens * d; ++i) keys[i] = values[i] = 0x7fc0;
  const Parts after = run();
  EXPECT_TRUE(same_bits({before.o.begin(), before.o.begin() + d}, {after.o.begin(), after.o.begin() + d}));
  EXPECT_EQ(before.m[0], after.m[0]);
  EXPECT_EQ(before.l[0], after.l[0]);
  EXPECT_TRUE(std::isnan(after.o[d]));
}

/// A sequence of pages, each computed alone.
struct Sequence {
  static constexpr std::uint32_t kRows = 3;
  static constexpr std::uint32_t kD = 64;
  static constexpr std::uint32_t kPage = 16;
  std::vector<float> q;
  std::vector<std::uint16_t> keys, values;
  std::uint32_t tokens;

  Sequence(std::uint32_t n, std::mt19937& rng)
      : q(random_values(kRows * kD, Character::ordinary, rng)),
        keys(to_bf16(random_values(std::size_t{n} * kD, Character::ordinary, rng))),
        values(to_bf16(random_values(std::size_t{n} * kD, Character::ordinary, rng))),
        tokens(n) {}
  std::uint32_t pages() const { return (tokens + kPage - 1) / kPage; }
  void compute(std::uint32_t page, const SoftmaxParts& out) const {
    const std::size_t at = std::size_t{page} * kPage * kD;
    const std::uint32_t n = tokens - page * kPage < kPage ? tokens - page * kPage : kPage;
    attention_page({q.data(), kD, kRows, kD, nullptr, 0.125f}, {keys.data() + at, values.data() + at, kD, kD, n}, out);
  }
};

TEST(Attention, PagesOverAnySlicesMergeToTheSameBits) {
  const test::TableScope scope;
  std::mt19937 rng(22);
  for (const std::uint32_t tokens : {1u, 16u, 100u, 1000u, 1030u}) {
    const Sequence sequence(tokens, rng);
    const std::uint32_t pages = sequence.pages();
    std::vector<float> expected;
    for (const test::NamedTable& t : test::every_table()) {
      select_table(*t.table);
      // Once with every page at its index, once with two halves of the tree merged apart (two owners).
      for (const bool two_owners : {false, true}) {
        std::vector<Parts> parts(pages, Parts(Sequence::kRows, Sequence::kD));
        std::vector<SoftmaxParts> views;
        for (std::uint32_t p = 0; p < pages; ++p) {
          // The order of computation is arbitrary: last page first.
          sequence.compute(pages - 1 - p, parts[pages - 1 - p].view());
        }
        for (Parts& p : parts) views.push_back(p.view());
        if (two_owners && pages > 1) {
          const std::uint32_t left = bracket_left(pages);
          softmax_merge_tree(views.data(), left, Sequence::kRows, Sequence::kD);
          softmax_merge_tree(views.data() + left, pages - left, Sequence::kRows, Sequence::kD);
          softmax_merge(views[0], views[left], Sequence::kRows, Sequence::kD);
        } else {
          softmax_merge_tree(views.data(), pages, Sequence::kRows, Sequence::kD);
        }
        std::vector<float> y(Sequence::kRows * Sequence::kD);
        softmax_finish(views[0], Sequence::kRows, Sequence::kD, y.data(), Sequence::kD);
        if (expected.empty()) expected = y;
        EXPECT_TRUE(same_bits(expected, y)) << t.name << " tokens " << tokens;
      }
    }
    // And the value itself, against double.
    for (std::uint32_t r = 0; r < Sequence::kRows; ++r) {
      std::vector<double> score(tokens);
      double top = -1e300;
      for (std::uint32_t i = 0; i < tokens; ++i) {
        for (std::uint32_t j = 0; j < Sequence::kD; ++j) {
          score[i] += static_cast<double>(sequence.q[r * Sequence::kD + j]) *
                      static_cast<double>(kernel::f32_from_bf16(sequence.keys[i * Sequence::kD + j])) * 0.125;
        }
        top = std::max(top, score[i]);
      }
      double sum = 0;
      for (double& s : score) sum += s = std::exp(s - top);
      for (std::uint32_t j = 0; j < Sequence::kD; ++j) {
        double o = 0;
        for (std::uint32_t i = 0; i < tokens; ++i) {
          o += score[i] * static_cast<double>(kernel::f32_from_bf16(sequence.values[i * Sequence::kD + j]));
        }
        EXPECT_NEAR(o / sum, static_cast<double>(expected[r * Sequence::kD + j]), 2e-6);
      }
    }
  }
}

TEST(SoftmaxMerge, EmptySideLeavesTheOtherUnchanged) {
  const test::TableScope scope;
  for (const test::NamedTable& t : test::every_table()) {
    select_table(*t.table);
    for (const bool empty_left : {false, true}) {
      Parts a(1, 20);
      Parts b(1, 20);
      Parts& empty = empty_left ? a : b;
      Parts& full = empty_left ? b : a;
      empty.m[0] = -std::numeric_limits<float>::infinity();
      empty.l[0] = 0.0f;
      empty.o.assign(20, 0.0f);
      full.m[0] = -3.25f;
      full.l[0] = 1.5f;
      full.o.assign(20, -0.0f);
      const Parts expected = full;
      softmax_merge(a.view(), b.view(), 1, 20);
      EXPECT_TRUE(same_bits(expected.m, a.m));
      EXPECT_TRUE(same_bits(expected.l, a.l));
      EXPECT_TRUE(same_bits(expected.o, a.o));
    }
  }
}

TEST(SoftmaxMerge, TreeSkipsAbsentLeavesAndAllEmptyGivesEmpty) {
  std::mt19937 rng(5);
  const Sequence sequence(40, rng);
  Parts first(3, 64);
  Parts second(3, 64);
  Parts expected(3, 64);
  sequence.compute(1, second.view());
  sequence.compute(1, expected.view());
  SoftmaxParts views[3] = {SoftmaxParts{}, second.view(), SoftmaxParts{}};
  softmax_merge_tree(views, 3, 3, 64);
  EXPECT_TRUE(same_bits(expected.o, second.o));
  SoftmaxParts empties[2] = {first.view(), SoftmaxParts{}};
  first.m.assign(3, -std::numeric_limits<float>::infinity());
  first.l.assign(3, 0.0f);
  softmax_merge_tree(empties, 2, 3, 64);
  EXPECT_EQ(first.l[0], 0.0f);
}

}  // namespace
}  // namespace jal::emu
