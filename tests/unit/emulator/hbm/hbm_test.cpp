// HBM: pages map to one contiguous extent, guards and foreign pages are not reachable, everything granted reads zero.
#include "emulator/hbm/hbm.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <jal/abi/status.h>

#include <bit>
#include <cstring>
#include <map>
#include <random>
#include <vector>

#include "emulator/hbm/extent_space.hpp"
#include "emulator/hbm/host_budget.hpp"

namespace jal::emu {
namespace {

using ::testing::HasSubstr;

constexpr std::uint32_t kClient = 3, kOther = 4;
constexpr std::uint64_t kPage = JAL_PAGE_BYTES;

class HbmTest : public ::testing::Test {
 protected:
  std::uint32_t map(std::uint64_t mask, std::uint32_t first, std::uint32_t pages, std::uint64_t bytes,
                    std::uint32_t client = kClient) {
    std::uint32_t extent = 0;
    std::string error;
    EXPECT_EQ(hbm.map(mask, first, pages, bytes, client, &extent, &error), JAL_OK) << error;
    return extent;
  }

  HostBudget budget{64ull << 20};
  Hbm hbm{6, 16ull << 20, budget};  // 6 slices of 256 pages
};

TEST_F(HbmTest, SlicesOfAGrantFollowEachOtherInOneExtent) {
  const std::uint64_t bytes = 1000 * 64;
  map(0b101010, 5, 1, bytes);
  const Hbm::Window first = hbm.resolve(kClient, JAL_ADDRESS_HBM(1, 5 * kPage));
  ASSERT_NE(first.data, nullptr);
  EXPECT_EQ(first.bytes, bytes);
  EXPECT_EQ(hbm.resolve(kClient, JAL_ADDRESS_HBM(3, 5 * kPage)).data, first.data + bytes);
  EXPECT_EQ(hbm.resolve(kClient, JAL_ADDRESS_HBM(5, 5 * kPage)).data, first.data + 2 * bytes);
  const Hbm::Window inner = hbm.resolve(kClient, JAL_ADDRESS_HBM(5, 5 * kPage + 100));
  EXPECT_EQ(inner.data, first.data + 2 * bytes + 100);
  EXPECT_EQ(inner.bytes, bytes - 100);
  EXPECT_EQ(inner.grant_base, JAL_ADDRESS_HBM(5, 5 * kPage));
  EXPECT_EQ(inner.grant_bytes, bytes);
}

TEST_F(HbmTest, OutsideTheGrantNothingIsReachable) {
  map(0b10, 5, 2, kPage + 64);
  EXPECT_NE(hbm.resolve(kClient, JAL_ADDRESS_HBM(1, 6 * kPage + 63)).data, nullptr);
  EXPECT_EQ(hbm.resolve(kClient, JAL_ADDRESS_HBM(1, 6 * kPage + 64)).data, nullptr) << "the guard";
  EXPECT_EQ(hbm.resolve(kClient, JAL_ADDRESS_HBM(1, 7 * kPage)).data, nullptr);
  EXPECT_EQ(hbm.resolve(kClient, JAL_ADDRESS_HBM(1, 5 * kPage - 1)).data, nullptr);
  EXPECT_EQ(hbm.resolve(kClient, JAL_ADDRESS_HBM(0, 5 * kPage)).data, nullptr);
  EXPECT_EQ(hbm.resolve(kClient, JAL_ADDRESS_HBM(6, 5 * kPage)).data, nullptr) << "a slice the chip does not have";
  EXPECT_EQ(hbm.resolve(kClient, JAL_ADDRESS_HBM(1, 0xffffffffu)).data, nullptr);
  EXPECT_EQ(hbm.resolve(kClient, 5 * kPage).data, nullptr) << "no address space";
  EXPECT_EQ(hbm.resolve(kClient, JAL_ADDRESS_HBM(1, 5 * kPage) | JAL_ADDRESS_HOST_VA_BIT).data, nullptr);
}

TEST_F(HbmTest, ForeignPagesAreSaidToBeForeignOnly) {
  map(0b10, 5, 1, kPage);
  const Hbm::Window window = hbm.resolve(kOther, JAL_ADDRESS_HBM(1, 5 * kPage));
  EXPECT_TRUE(window.foreign);
  EXPECT_EQ(window.data, nullptr);
  EXPECT_EQ(window.grant_base, 0u);
  EXPECT_EQ(hbm.nearest(kOther, JAL_ADDRESS_HBM(1, 5 * kPage)).grant_base, 0u);
}

TEST_F(HbmTest, NearestIsTheClosestGrantOfThisClient) {
  map(0b10, 5, 1, kPage);
  map(0b10, 20, 1, kPage);
  map(0b10, 8, 1, kPage, kOther);
  EXPECT_EQ(hbm.nearest(kClient, JAL_ADDRESS_HBM(1, 8 * kPage)).grant_base, JAL_ADDRESS_HBM(1, 5 * kPage));
  EXPECT_EQ(hbm.nearest(kClient, JAL_ADDRESS_HBM(1, 19 * kPage)).grant_base, JAL_ADDRESS_HBM(1, 20 * kPage));
  EXPECT_EQ(hbm.nearest(kClient, 0).grant_base, JAL_ADDRESS_HBM(1, 5 * kPage));
}

TEST_F(HbmTest, UnmappedIsGoneAndTheNextOwnerReadsZero) {
  const std::uint32_t extent = map(0b11, 5, 1, kPage);
  std::memset(hbm.resolve(kClient, JAL_ADDRESS_HBM(0, 5 * kPage)).data, 0xab, 2 * kPage);
  EXPECT_EQ(budget.used(), 2 * kPage);
  hbm.unmap(extent);
  EXPECT_EQ(budget.used(), 0u);
  EXPECT_EQ(hbm.resolve(kClient, JAL_ADDRESS_HBM(0, 5 * kPage)).data, nullptr);
  EXPECT_EQ(map(0b11, 5, 1, kPage, kOther), extent) << "numbers are used again";
  const std::byte* data = hbm.resolve(kOther, JAL_ADDRESS_HBM(0, 5 * kPage)).data;
  for (std::uint64_t i = 0; i < 2 * kPage; ++i) ASSERT_EQ(data[i], std::byte{0});
}

TEST_F(HbmTest, BudgetRefusalNamesFiguresAndChangesNothing) {
  const std::uint32_t extent = map(0b111111, 0, 128, 8ull << 20);  // 48 MiB
  std::uint32_t none = 77;
  std::string error;
  EXPECT_EQ(hbm.map(0b111, 128, 128, 8ull << 20, kClient, &none, &error), JAL_ERROR_HOST_BUDGET);
  EXPECT_THAT(error, HasSubstr("24.00 MiB"));
  EXPECT_THAT(error, HasSubstr("64.00 MiB"));
  EXPECT_THAT(error, HasSubstr("JAL_HOST_BUDGET"));
  EXPECT_EQ(none, 77u);
  EXPECT_EQ(budget.used(), 48ull << 20);
  EXPECT_EQ(hbm.resolve(kClient, JAL_ADDRESS_HBM(0, 128 * kPage)).data, nullptr);
  hbm.unmap(extent);
  map(0b111, 128, 128, 8ull << 20);
}

TEST_F(HbmTest, RequestsThatTheFirmwareMustNotMakeAreRefused) {
  map(0b1, 5, 1, kPage);
  std::uint32_t extent = 0;
  std::string error;
  const auto refused = [&](std::uint64_t mask, std::uint32_t first, std::uint32_t pages, std::uint64_t bytes) {
    return hbm.map(mask, first, pages, bytes, kClient, &extent, &error) == JAL_ERROR_INTERNAL && !error.empty();
  };
  EXPECT_TRUE(refused(0, 0, 1, 64));
  EXPECT_TRUE(refused(1 << 6, 0, 1, 64));
  EXPECT_TRUE(refused(1, 256, 1, 64));
  EXPECT_TRUE(refused(1, 255, 2, 64));
  EXPECT_TRUE(refused(1, 1, UINT32_MAX, 64));
  EXPECT_TRUE(refused(1, 0, 1, kPage + 64));
  EXPECT_TRUE(refused(1, 0, 1, 63));
  EXPECT_TRUE(refused(1, 0, 1, 0));
  EXPECT_TRUE(refused(1, 4, 2, 64)) << "page 5 is mapped";
  EXPECT_THAT(error, HasSubstr("page 5 of slice 0"));
  EXPECT_EQ(budget.used(), kPage);
}

TEST_F(HbmTest, DestructionRefundsTheBudget) {
  {
    Hbm other(2, 1ull << 20, budget);
    std::uint32_t extent = 0;
    std::string error;
    ASSERT_EQ(other.map(0b11, 0, 2, kPage + 64, 0, &extent, &error), JAL_OK) << error;
    EXPECT_EQ(budget.used(), ExtentSpace::taken(2 * (kPage + 64)));
  }
  EXPECT_EQ(budget.used(), 0u);
}

// Against a plain model: a map from (slice, page) to the grant that holds it.
TEST_F(HbmTest, RandomGrantsAgreeWithAPlainModel) {
  const std::uint64_t seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937_64 random(seed);
  struct Grant {
    std::uint64_t mask, bytes;
    std::uint32_t first, pages, client, number;
  };
  std::vector<Grant> grants;
  std::map<std::pair<std::uint32_t, std::uint32_t>, std::uint32_t> owner;  // (slice, page) -> extent number
  for (int step = 0; step < 2000; ++step) {
    if (random() % 3 != 0) {
      Grant grant{};
      grant.mask = 1 + random() % 63;
      grant.pages = static_cast<std::uint32_t>(1 + random() % 9);
      grant.first = static_cast<std::uint32_t>(random() % (256 - grant.pages));
      grant.bytes = (1 + random() % (grant.pages * kPage / 64)) * 64;
      grant.client = static_cast<std::uint32_t>(random() % 3);
      bool free = true;
      for (std::uint32_t slice = 0; slice < 6; ++slice) {
        for (std::uint32_t page = grant.first; page < grant.first + grant.pages; ++page) {
          free &= ((grant.mask >> slice) & 1) == 0 || owner.count({slice, page}) == 0;
        }
      }
      std::string error;
      const std::int32_t status =
          hbm.map(grant.mask, grant.first, grant.pages, grant.bytes, grant.client, &grant.number, &error);
      if (!free) {
        ASSERT_EQ(status, JAL_ERROR_INTERNAL);
        continue;
      }
      if (status == JAL_ERROR_HOST_BUDGET) continue;
      ASSERT_EQ(status, JAL_OK) << error;
      for (std::uint32_t slice = 0; slice < 6; ++slice) {
        if (((grant.mask >> slice) & 1) == 0) continue;
        for (std::uint32_t page = grant.first; page < grant.first + grant.pages; ++page)
          owner[{slice, page}] = grant.number;
      }
      grants.push_back(grant);
    } else if (!grants.empty()) {
      const auto at = random() % grants.size();
      hbm.unmap(grants[at].number);
      std::erase_if(owner, [&](const auto& entry) { return entry.second == grants[at].number; });
      grants.erase(grants.begin() + static_cast<std::ptrdiff_t>(at));
    }
    std::uint64_t charged = 0;
    for (const Grant& grant : grants) {
      charged += ExtentSpace::taken(grant.bytes * static_cast<std::uint64_t>(std::popcount(grant.mask)));
    }
    ASSERT_EQ(budget.used(), charged);
    const auto slice = static_cast<std::uint32_t>(random() % 6), page = static_cast<std::uint32_t>(random() % 256);
    const std::uint64_t offset = page * kPage + random() % kPage;
    const auto client = static_cast<std::uint32_t>(random() % 3);
    const Hbm::Window window = hbm.resolve(client, JAL_ADDRESS_HBM(slice, offset));
    const auto found = owner.find({slice, page});
    if (found == owner.end()) {
      ASSERT_EQ(window.data, nullptr);
      ASSERT_FALSE(window.foreign);
      continue;
    }
    const auto grant =
        std::find_if(grants.begin(), grants.end(), [&](const Grant& g) { return g.number == found->second; });
    const std::uint64_t within = offset - grant->first * kPage;
    ASSERT_EQ(window.foreign, grant->client != client);
    ASSERT_EQ(window.data != nullptr, grant->client == client && within < grant->bytes);
    if (window.data != nullptr) {
      ASSERT_EQ(window.bytes, grant->bytes - within);
    }
  }
}

}  // namespace
}  // namespace jal::emu
