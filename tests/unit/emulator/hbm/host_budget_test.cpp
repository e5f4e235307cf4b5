// The host budget: charged whole or not at all, also from several threads.
#include "emulator/hbm/host_budget.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <thread>

namespace jal::emu {
namespace {

TEST(HostBudget, ChargeUpToTheLimitThenRefuse) {
  HostBudget budget(100);
  EXPECT_TRUE(budget.charge(60));
  EXPECT_FALSE(budget.charge(41));
  EXPECT_EQ(budget.used(), 60u);
  EXPECT_TRUE(budget.charge(40));
  EXPECT_FALSE(budget.charge(1));
  EXPECT_FALSE(budget.charge(UINT64_MAX));
  budget.refund(100);
  EXPECT_EQ(budget.used(), 0u);
}

TEST(HostBudget, ThreadsNeverExceedTheLimit) {
  HostBudget budget(1000);
  std::atomic<int> granted{0};
  const auto charge = [&] {
    for (int i = 0; i < 1000; ++i) granted += budget.charge(1);
  };
  std::thread other(charge);
  charge();
  other.join();
  EXPECT_EQ(granted, 1000);
  EXPECT_EQ(budget.used(), 1000u);
}

TEST(HostBudget, DefaultIsBelowPhysicalMemory) {
  const auto physical =
      static_cast<std::uint64_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
  EXPECT_GT(default_host_budget_bytes(), 64ull << 20);
  EXPECT_LE(default_host_budget_bytes(), physical / 5 * 4);
}

TEST(HostBudget, ParseBytes) {
  std::uint64_t bytes = 7;
  EXPECT_TRUE(parse_bytes("1048576", &bytes));
  EXPECT_EQ(bytes, 1048576u);
  EXPECT_TRUE(parse_bytes("20G", &bytes));
  EXPECT_EQ(bytes, 20ull << 30);
  EXPECT_TRUE(parse_bytes("3K", &bytes));
  EXPECT_EQ(bytes, 3072u);
  for (const char* wrong : {"", "0", "G", "12X", "12GB", "-1", "1.5G", " 1", "99999999999T", "99999999999999999999"}) {
    EXPECT_FALSE(parse_bytes(wrong, &bytes)) << wrong;
  }
  EXPECT_EQ(bytes, 3072u) << "a refused text changed the value";
  EXPECT_EQ(bytes_text(3ull << 29), "1.50 GiB");
  EXPECT_EQ(bytes_text(100), "100 B");
}

}  // namespace
}  // namespace jal::emu
