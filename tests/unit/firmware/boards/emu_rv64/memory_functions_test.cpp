// The bare-metal memory functions against the C library's, on every alignment.
#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <vector>

// The names are taken in a hosted program: here the functions get others.
#define memchr rv64_memchr
#define memcmp rv64_memcmp
#define memcpy rv64_memcpy
#define memmove rv64_memmove
#define memset rv64_memset
#include "firmware/boards/emu_rv64/memory_functions.cpp"
#undef memchr
#undef memcmp
#undef memcpy
#undef memmove
#undef memset

namespace jal::rv64 {
namespace {

class MemoryFunctions : public ::testing::Test {
 protected:
  MemoryFunctions() : from(256), mine(256), theirs(256) {
    std::mt19937 draw(1);
    for (auto& byte : from) byte = static_cast<std::uint8_t>(draw());
  }
  /// Calls visit(offset of destination, offset of source, bytes) for all small cases.
  template <typename Visit>
  static void for_all(Visit visit) {
    for (std::size_t to = 0; to < 9; ++to) {
      for (std::size_t at = 0; at < 9; ++at) {
        for (std::size_t bytes = 0; bytes < 40; ++bytes) visit(to, at, bytes);
      }
    }
  }
  std::vector<std::uint8_t> from, mine, theirs;
};

TEST_F(MemoryFunctions, CopyAndSetTouchWhatTheyShouldAndNothingElse) {
  for_all([&](std::size_t to, std::size_t at, std::size_t bytes) {
    EXPECT_EQ(rv64_memcpy(mine.data() + to, from.data() + at, bytes), mine.data() + to);
    std::memcpy(theirs.data() + to, from.data() + at, bytes);
    ASSERT_EQ(mine, theirs) << to << " " << at << " " << bytes;
    EXPECT_EQ(rv64_memset(mine.data() + at, static_cast<int>(0x180 + to), bytes), mine.data() + at);
    std::memset(theirs.data() + at, static_cast<int>(0x180 + to), bytes);
    ASSERT_EQ(mine, theirs) << to << " " << at << " " << bytes;
  });
}

TEST_F(MemoryFunctions, MoveAllowsOverlap) {
  for_all([&](std::size_t to, std::size_t at, std::size_t bytes) {
    mine = theirs = from;
    EXPECT_EQ(rv64_memmove(mine.data() + to, mine.data() + at, bytes), mine.data() + to);
    std::memmove(theirs.data() + to, theirs.data() + at, bytes);
    ASSERT_EQ(mine, theirs) << to << " " << at << " " << bytes;
  });
}

TEST_F(MemoryFunctions, CompareAndFindAgree) {
  for_all([&](std::size_t to, std::size_t at, std::size_t bytes) {
    mine = from;
    mine[to + at] = static_cast<std::uint8_t>(mine[to + at] + 1 + bytes);
    const int sign = std::memcmp(mine.data() + to, from.data() + to, bytes);
    const int result = rv64_memcmp(mine.data() + to, from.data() + to, bytes);
    ASSERT_EQ((result > 0) - (result < 0), (sign > 0) - (sign < 0)) << to << " " << at << " " << bytes;
    ASSERT_EQ(rv64_memchr(from.data() + to, 0x100 + from[at + 3], bytes),
              std::memchr(from.data() + to, from[at + 3], bytes));
  });
}

}  // namespace
}  // namespace jal::rv64
