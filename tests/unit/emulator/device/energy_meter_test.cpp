// The meter is exact: no rounding, no overflow, and the order of additions does not matter.
#include "emulator/device/energy_meter.hpp"

#include <gtest/gtest.h>

#include "emulator/device/fixed_point.hpp"

namespace jal::emu {
namespace {

class EnergyMeterTest : public ::testing::Test {
 protected:
  EnergyMeterTest() {
    model.static_uw[JAL_UNIT_MATRIX][JAL_UNIT_STATE_ON] = 30'000'000;
    model.static_uw[JAL_UNIT_MATRIX][JAL_UNIT_STATE_OFF] = 1;
  }
  Model model;
  EnergyMeter meter{model};
};

TEST_F(EnergyMeterTest, StaticPowerOverTime) {
  meter.advance_ps(1'000'000'000'000);  // one second
  EXPECT_EQ(meter.read_nj(JAL_UNIT_MATRIX), 30'000'000'000u);
  EXPECT_EQ(meter.read_nj(JAL_UNIT_HBM), 0u);
}

TEST_F(EnergyMeterTest, SmallStepsSumExactly) {
  // 30 W for 1 ps is 30e6 aJ: below what nanojoules, or femtojoules of 1 uW, can hold.
  for (int i = 0; i < 100; ++i) meter.advance_ps(1);
  EXPECT_EQ(meter.read_nj(JAL_UNIT_MATRIX), 3u);
  meter.set_state(JAL_UNIT_MATRIX, JAL_UNIT_STATE_OFF);
  EXPECT_EQ(meter.static_uw(JAL_UNIT_MATRIX), 1u);
  for (int i = 0; i < 1000; ++i) meter.advance_ps(1'000'000);
  EXPECT_EQ(meter.read_nj(JAL_UNIT_MATRIX), 4u);
}

TEST_F(EnergyMeterTest, DynamicEnergyBeyond64BitsOfFemtojoules) {
  meter.add_fj(JAL_UNIT_HBM, UINT64_MAX);
  meter.add_fj(JAL_UNIT_HBM, UINT64_MAX);
  EXPECT_EQ(meter.read_nj(JAL_UNIT_HBM), static_cast<std::uint64_t>(Wide{UINT64_MAX} * 2 / 1'000'000));
}

TEST_F(EnergyMeterTest, ReadingOftenChangesNothing) {
  EnergyMeter seldom(model);
  for (std::uint64_t i = 1; i <= 5000; ++i) {
    const std::uint64_t energy = i * 0x9e3779b97f4a7c15u >> (i % 60);
    meter.add_fj(JAL_UNIT_MATRIX, energy);
    seldom.add_fj(JAL_UNIT_MATRIX, energy);
    meter.advance_ps(i);
    seldom.advance_ps(i);
    meter.read_nj(JAL_UNIT_MATRIX);
  }
  EXPECT_EQ(meter.read_nj(JAL_UNIT_MATRIX), seldom.read_nj(JAL_UNIT_MATRIX));
}

TEST_F(EnergyMeterTest, OrderDoesNotMatter) {
  EnergyMeter other(model);
  for (std::uint64_t i = 1; i <= 1000; ++i) meter.add_fj(JAL_UNIT_NOC, i * i * 977);
  for (std::uint64_t i = 1000; i >= 1; --i) other.add_fj(JAL_UNIT_NOC, i * i * 977);
  EXPECT_EQ(meter.read_nj(JAL_UNIT_NOC), other.read_nj(JAL_UNIT_NOC));
  EXPECT_GT(meter.read_nj(JAL_UNIT_NOC), 0u);
}

TEST(FixedPoint, TimeRoundsUpAndEnergyDown) {
  EXPECT_EQ(picoseconds(0, 1e9), 0u);
  EXPECT_EQ(picoseconds(1, 1e9), 1000u);
  EXPECT_EQ(picoseconds(1, 3e12), 1u);
  EXPECT_EQ(picoseconds(1ull << 40, 240.6e9), 4569873764656u);  // ceil(2^40 * 1e12 / 240.6e9)
  EXPECT_EQ(picoseconds(9'000'000, 240.6e9), 37406484u);        // 64 bits up to here
  EXPECT_EQ(picoseconds(9'000'001, 240.6e9), 37406488u);
  EXPECT_EQ(femtojoules(3, 0.5), 1u);
  EXPECT_EQ(femtojoules(1ull << 50, 28000), (1ull << 50) * 28000);
}

}  // namespace
}  // namespace jal::emu
