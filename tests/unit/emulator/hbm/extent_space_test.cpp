// Extents of host memory: best fit, coalescing, scrubbing, and access only while used.
#include "emulator/hbm/extent_space.hpp"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <random>
#include <vector>

namespace jal::emu {
namespace {

constexpr std::uint64_t kMiB = 1u << 20;

bool reads_zero(const std::byte* data, std::uint64_t bytes) {
  return std::all_of(data, data + bytes, [](std::byte b) { return b == std::byte{0}; });
}

TEST(ExtentSpace, NeighboursCoalesceWhenReleasedInAnyOrder) {
  for (const auto& order : {std::vector<int>{0, 1, 2}, {2, 1, 0}, {1, 0, 2}, {0, 2, 1}}) {
    ExtentSpace space(16 * kMiB);
    std::string error;
    std::byte* part[3];
    for (auto& data : part) data = space.allocate(100000, &error);
    EXPECT_EQ(part[1], part[0] + ExtentSpace::taken(100000)) << "neighbouring extents share a huge page";
    EXPECT_EQ(space.holes(), 1u);
    for (int i : order) space.release(part[i], 100000);
    EXPECT_EQ(space.holes(), 1u);
    std::byte* all = space.allocate(16 * kMiB, &error);
    ASSERT_NE(all, nullptr) << error;
    space.release(all, 16 * kMiB);
  }
}

TEST(ExtentSpace, BestFitTakesTheSmallestHole) {
  ExtentSpace space(16 * kMiB);
  std::string error;
  std::byte* large = space.allocate(3 * kMiB, &error);
  std::byte* wall = space.allocate(4096, &error);
  std::byte* small = space.allocate(kMiB, &error);
  std::byte* wall2 = space.allocate(4096, &error);
  space.release(large, 3 * kMiB);
  space.release(small, kMiB);
  EXPECT_EQ(space.allocate(kMiB, &error), small);
  EXPECT_EQ(space.allocate(2 * kMiB, &error), large);
  EXPECT_NE(wall, wall2);
}

TEST(ExtentSpace, FullSaysSoAndChangesNothing) {
  ExtentSpace space(4 * kMiB);
  std::string error;
  std::byte* first = space.allocate(3 * kMiB, &error);
  EXPECT_EQ(space.allocate(2 * kMiB, &error), nullptr);
  EXPECT_NE(error.find("2.00 MiB"), std::string::npos) << error;
  EXPECT_NE(space.allocate(kMiB, &error), nullptr);
  space.release(first, 3 * kMiB);
}

TEST(ExtentSpace, ReleasedGranuleIsNoLongerAccessible) {
  ExtentSpace space(8 * kMiB);
  std::string error;
  std::byte* data = space.allocate(2 * kMiB, &error);
  data[0] = std::byte{1};
  space.release(data, 2 * kMiB);
  EXPECT_DEATH(data[0] = std::byte{2}, "");
}

#ifndef __SANITIZE_ADDRESS__  // its shadow memory alone is above any limit of address space
TEST(ExtentSpace, LimitOfAddressSpaceIsNamed) {
  // In a child: a lowered limit stays for good.
  EXPECT_EXIT(
      {
        rlimit limit{};
        getrlimit(RLIMIT_AS, &limit);
        limit.rlim_cur = 1ull << 30;
        setrlimit(RLIMIT_AS, &limit);
        ExtentSpace space(1ull << 40);
        std::string error;
        const bool refused = space.allocate(4096, &error) == nullptr;
        std::fprintf(stderr, "%s", error.c_str());
        _exit(refused ? 7 : 0);
      },
      ::testing::ExitedWithCode(7), "1.00 TiB of address space.*ulimit -v");
}
#endif

TEST(ExtentSpace, ManyOwnersNeverSeeEachOthersBytes) {
  const std::uint64_t seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937_64 random(seed);
  ExtentSpace space(64 * kMiB);
  struct Owner {
    std::byte* data;
    std::uint64_t bytes;
    std::byte mark;
  };
  std::vector<Owner> owners;
  std::string error;
  for (int step = 0; step < 600; ++step) {
    if (random() % 5 < 3) {
      const std::uint64_t bytes = 1 + random() % (random() % 4 == 0 ? 5 * kMiB : 90000);
      std::byte* data = space.allocate(bytes, &error);
      if (data == nullptr) continue;
      ASSERT_TRUE(reads_zero(data, bytes)) << "step " << step;
      const std::byte mark{static_cast<unsigned char>(1 + step % 255)};
      std::memset(data, static_cast<int>(mark), bytes);
      owners.push_back({data, bytes, mark});
    } else if (!owners.empty()) {
      const auto at = random() % owners.size();
      const Owner owner = owners[at];
      ASSERT_TRUE(std::all_of(owner.data, owner.data + owner.bytes, [&](std::byte b) { return b == owner.mark; }));
      space.release(owner.data, owner.bytes);
      owners.erase(owners.begin() + static_cast<std::ptrdiff_t>(at));
    }
  }
  for (const Owner& owner : owners) space.release(owner.data, owner.bytes);
  EXPECT_EQ(space.holes(), 1u);
}

}  // namespace
}  // namespace jal::emu
