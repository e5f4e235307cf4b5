// Statuses, error frames and results of driver/base.
#include "driver/base/error_frames.hpp"

#include <gtest/gtest.h>

#include <set>
#include <string>
#include <thread>

namespace jal::drv {
namespace {

Status inner() { return fail(JAL_ERROR_QUEUE_FULL, "submit {} packets: ring holds {}", 70, 64); }
Status outer() { return add_frame(inner(), "launching kernel {}", "axpy"); }
Result<int> half(int value) {
  if (value % 2 != 0) return fail(JAL_ERROR_INVALID_ARGUMENT, "{} is odd", value);
  return value / 2;
}

TEST(ErrorFrames, FailureThroughLayersKeepsEveryFrameInnermostFirst) {
  EXPECT_EQ(outer().code(), JAL_ERROR_QUEUE_FULL);
  EXPECT_STREQ(last_error_message(), "submit 70 packets: ring holds 64\n  in: launching kernel axpy");
  EXPECT_EQ(last_error_status(), JAL_ERROR_QUEUE_FULL);
}

TEST(ErrorFrames, SuccessLeavesTheMessageAlone) {
  inner().ignore();
  const std::string before = last_error_message();
  EXPECT_TRUE(add_frame(Status(), "nothing").ok());
  EXPECT_EQ(last_error_message(), before);
}

TEST(ErrorFrames, FrameOnABareCodeBeginsWithTheStatusText) {
  inner().ignore();
  add_frame(Status(JAL_ERROR_BUSY), "opening x").ignore();
  EXPECT_EQ(last_error_message(), std::string(status_text(JAL_ERROR_BUSY)) + "\n  in: opening x");
}

TEST(ErrorFrames, ThreadsHaveTheirOwnMessage) {
  inner().ignore();
  std::thread([] { EXPECT_STREQ(last_error_message(), ""); }).join();
  EXPECT_STRNE(last_error_message(), "");
}

TEST(StatusNames, EveryStatusHasItsOwnNameTextAndAdvice) {
  std::set<std::string> names;
#define JAL_CHECK(name, canonical, unit, detail, text, advice) \
  EXPECT_STREQ(status_name(JAL_ERROR_##name), #name);          \
  EXPECT_STREQ(status_text(JAL_ERROR_##name), text);           \
  EXPECT_STREQ(status_advice(JAL_ERROR_##name), advice);       \
  EXPECT_TRUE(names.insert(status_name(JAL_ERROR_##name)).second);
  JAL_STATUS_LIST(JAL_CHECK)
#undef JAL_CHECK
  EXPECT_STREQ(status_name(JAL_OK), "OK");
  EXPECT_STREQ(status_name(-1), "UNKNOWN");
}

TEST(Result, HoldsAValueOrAReason) {
  EXPECT_EQ(*half(4), 2);
  const Result<int> odd = half(3);
  EXPECT_FALSE(odd.ok());
  EXPECT_EQ(odd.code(), JAL_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(Result<int>(Status()).code(), JAL_ERROR_INTERNAL);  // a missing value is never OK
}

TEST(Clock, NowNeverRunsBackwards) {
  const std::uint64_t first = now_ns();
  EXPECT_GE(now_ns(), first);
}

}  // namespace
}  // namespace jal::drv
