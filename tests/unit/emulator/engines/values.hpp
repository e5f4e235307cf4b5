// Inputs of the engine tests: random values of a chosen character, 64-byte aligned buffers, comparison by bits.
#pragma once
#include <gtest/gtest.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <memory>
#include <random>
#include <string>
#include <vector>

namespace jal::emu::test {

/// ordinary: normal distribution; wide: exponents from 2^-30 to 2^30; tiny: products fall below FLT_MIN; special: NaN,
/// infinities, zeros, denormals and largest values among ordinary ones.
enum class Character { ordinary, wide, tiny, special };

inline std::vector<float> random_values(std::size_t n, Character character, std::mt19937& rng) {
  std::normal_distribution<float> normal;
  std::vector<float> values(n);
  for (float& v : values) {
    v = normal(rng);
    const int choice = static_cast<int>(rng() % 60);
    if (character == Character::wide) v = std::ldexp(v, choice - 30);
    if (character == Character::tiny) v = std::ldexp(v, -55 - choice % 16);
    if (character == Character::special) {
      constexpr float kSpecial[] = {0.0f, -0.0f, 1e-40f, -1e-40f, 3e38f, -3e38f, 1.2e-38f, 0x1p120f};
      if (choice < 8) v = kSpecial[choice];
      if (choice == 8 && rng() % 8 == 0) v = std::numeric_limits<float>::infinity();
      if (choice == 9 && rng() % 8 == 0) v = -std::numeric_limits<float>::infinity();
      if (choice == 10 && rng() % 8 == 0) v = std::numeric_limits<float>::quiet_NaN();
    }
  }
  return values;
}

/// Zeroed memory aligned as tiles and operands must be, with nothing readable promised behind it.
class Aligned {
 public:
  explicit Aligned(std::size_t bytes) : data_(std::aligned_alloc(64, (bytes + 63) / 64 * 64 + 64)) {
    std::memset(data_.get(), 0, (bytes + 63) / 64 * 64 + 64);
  }
  void* get() const { return data_.get(); }

 private:
  struct Free {
    void operator()(void* p) const { std::free(p); }
  };
  std::unique_ptr<void, Free> data_;
};

inline ::testing::AssertionResult same_bits(const std::vector<float>& expected, const std::vector<float>& actual) {
  if (expected.size() != actual.size()) return ::testing::AssertionFailure() << "sizes differ";
  for (std::size_t i = 0; i < expected.size(); ++i) {
    std::uint32_t a = 0;
    std::uint32_t b = 0;
    std::memcpy(&a, &expected[i], 4);
    std::memcpy(&b, &actual[i], 4);
    if (a != b) {
      return ::testing::AssertionFailure()
             << "element " << i << " of " << expected.size() << ": expected " << expected[i] << " (0x" << std::hex << a
             << "), got " << actual[i] << " (0x" << b << ")";
    }
  }
  return ::testing::AssertionSuccess();
}

}  // namespace jal::emu::test
