// The firmware's log records become text by the contract's list.
#include "emulator/instance/log_drain.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>

namespace jal::emu {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

class LogDrainTest : public ::testing::Test {
 protected:
  void add(std::uint32_t id, std::uint32_t level, std::uint64_t a = 0, std::uint64_t b = 0) {
    ring->entry[ring->written % JAL_LOG_ENTRIES] = {2'500'000, id, level, {a, b, 0, 0}};
    ++ring->written;
  }
  std::string drained(LogDrain& drain) {
    ::testing::internal::CaptureStderr();
    drain.drain(*ring);
    return ::testing::internal::GetCapturedStderr();
  }
  std::unique_ptr<jal_log_ring> ring = std::make_unique<jal_log_ring>();
};

TEST_F(LogDrainTest, RecordsBecomeLinesOnce) {
  add(2, JAL_LOG_LEVEL_INFO, 7, 1);
  LogDrain drain(3, JAL_LOG_LEVEL_INFO);
  EXPECT_EQ(drained(drain), "jal-emulator: device 3: 2.500 us: info: client 7 attached, abi 1\n");
  EXPECT_EQ(drained(drain), "");
}

TEST_F(LogDrainTest, LessSevereRecordsAreLeftOut) {
  add(2, JAL_LOG_LEVEL_INFO, 7, 1);
  add(14, JAL_LOG_LEVEL_ERROR, 5);
  LogDrain drain(0, JAL_LOG_LEVEL_WARNING);
  const std::string text = drained(drain);
  EXPECT_THAT(text, HasSubstr("device lost, status 5"));
  EXPECT_THAT(text, Not(HasSubstr("attached")));
  LogDrain off(0, 0);
  EXPECT_EQ(drained(off), "");
}

TEST_F(LogDrainTest, FallingBehindIsSaid) {
  for (std::uint32_t i = 0; i < JAL_LOG_ENTRIES + 9; ++i) add(1, JAL_LOG_LEVEL_INFO, i);
  LogDrain drain(0, JAL_LOG_LEVEL_DEBUG);
  const std::string text = drained(drain);
  EXPECT_THAT(text, HasSubstr("9 log records were overwritten"));
  EXPECT_THAT(text, HasSubstr("boot post code 9\n"));
  EXPECT_THAT(text, Not(HasSubstr("boot post code 8\n")));
}

TEST_F(LogDrainTest, UnknownRecordsArePrintedAsNumbers) {
  EXPECT_EQ(log_text({0, 9999, JAL_LOG_LEVEL_INFO, {1, 2, 3, 4}}), "record 9999: 1 2 3 4");
}

}  // namespace
}  // namespace jal::emu
