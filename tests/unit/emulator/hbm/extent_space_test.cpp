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

#include "tests/unit/emulator/hbm/huge_pages.hpp"

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

TEST(ExtentSpace, LargeWritesAloneAskForHugePagesUntilReleased) {
  if (!test::system_has_huge_pages()) GTEST_SKIP() << "this kernel has no transparent huge pages";
  ExtentSpace space(16 * kMiB);
  std::string error;
  std::byte* data = space.allocate(8 * kMiB, &error);
  const auto granules = [&] {
    std::string text;
    for (std::uint64_t at = 0; at < 8 * kMiB; at += ExtentSpace::kGranuleBytes) {
      text += test::asks_for_huge_pages(data + at) ? 'H' : '.';
    }
    return text;
  };
  space.expect_write(data, ExtentSpace::kDenseBytes - 1);
  EXPECT_EQ(granules(), "....");
  // The last byte of granule 1 and the rest in granule 2.
  space.expect_write(data + 4 * kMiB - 1, ExtentSpace::kDenseBytes);
  EXPECT_EQ(granules(), ".HH.");
  space.expect_write(data, 8 * kMiB);
  EXPECT_EQ(granules(), "HHHH");
  space.release(data, 8 * kMiB);
  EXPECT_EQ(space.allocate(8 * kMiB, &error), data);
  EXPECT_EQ(granules(), "....");
  space.release(data, 8 * kMiB);
}

TEST(ExtentSpace, GranuleWithAnotherExtentKeepsItsPages) {
  if (!test::system_has_huge_pages()) GTEST_SKIP() << "this kernel has no transparent huge pages";
  ExtentSpace space(16 * kMiB);
  std::string error;
  std::byte* first = space.allocate(kMiB, &error);
  std::byte* second = space.allocate(2 * kMiB, &error);
  space.expect_write(first, kMiB);
  space.expect_write(second, 2 * kMiB);
  std::memset(first, 1, kMiB);
  space.release(second, 2 * kMiB);
  EXPECT_TRUE(test::asks_for_huge_pages(first));
  EXPECT_FALSE(test::asks_for_huge_pages(first + ExtentSpace::kGranuleBytes));
  EXPECT_EQ(first[kMiB - 1], std::byte{1});
  space.release(first, kMiB);
}

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
      if (step % 2 == 0) space.expect_write(data, bytes);
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
