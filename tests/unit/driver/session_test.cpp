// A session with a real (emulated) chip: handshake, mailbox, limits.
#include "driver/session.hpp"

#include <gmock/gmock.h>

#include <thread>
#include <vector>

#include "tests/unit/driver/chip_fixture.hpp"

namespace jal::drv {
namespace {

using testing::HasSubstr;
using SessionTest = ChipTest;

TEST_F(SessionTest, OpenAgreesOnAVersionAndDescribesTheChip) {
  EXPECT_EQ(session_->abi_version(), JAL_ABI_VERSION_MAX);
  EXPECT_STREQ(session_->chip().model, "jal-test4");
  EXPECT_EQ(session_->chip().cores, 4u);
  EXPECT_NE(session_->features() & JAL_FEATURE_HOST_VA, 0u);
  EXPECT_STRNE(session_->firmware_version(), "");
}

TEST_F(SessionTest, OpenBeyondTheInstanceReturnsNoDevice) {
  const auto other = Session::open(*instance_, 7);
  EXPECT_EQ(other.code(), JAL_ERROR_NO_DEVICE);
  EXPECT_THAT(last_error_message(), HasSubstr("device 7: the instance has 1"));
}

TEST_F(SessionTest, OpenMoreThanTheDeviceServesReturnsTooManyClients) {
  std::vector<std::unique_ptr<Session>> sessions;
  for (int i = 0; i < 64; ++i) {
    auto next = Session::open(*instance_, 0);
    if (!next.ok()) {
      EXPECT_EQ(next.code(), JAL_ERROR_TOO_MANY_CLIENTS);
      EXPECT_THAT(last_error_message(), HasSubstr("in: opening device 0"));
      return;
    }
    sessions.push_back(std::move(*next));
  }
  FAIL() << "64 clients were let in";
}

TEST_F(SessionTest, EchoReturnsTheWords) {
  const auto answer = session_->ask(JAL_MAILBOX_ECHO, {1, 2, 3, 4, 5, 6, 7});
  ASSERT_TRUE(answer.ok());
  EXPECT_EQ(answer->status, JAL_OK);
  for (std::uint64_t i = 0; i < 7; ++i) EXPECT_EQ(answer->word[i], i + 1);
}

TEST_F(SessionTest, UnknownOperationIsAnsweredNotHung) {
  const auto answer = session_->ask(999, {});
  ASSERT_TRUE(answer.ok());
  EXPECT_EQ(answer->status, JAL_ERROR_UNIMPLEMENTED);
}

TEST_F(SessionTest, ThreadsAskAtOnceAndEachGetsItsOwnAnswer) {
  std::vector<std::thread> threads;
  for (std::uint64_t t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (std::uint64_t i = 0; i < 200; ++i) {
        const auto answer = session_->ask(JAL_MAILBOX_ECHO, {t, i});
        ASSERT_TRUE(answer.ok());
        EXPECT_EQ(answer->word[0], t);
        EXPECT_EQ(answer->word[1], i);
      }
    });
  }
  for (auto& thread : threads) thread.join();
}

TEST_F(SessionTest, WaitForWhatNeverComesReturnsTimeout) {
  const std::uint64_t start = now_ns();
  EXPECT_EQ(session_->wait([] { return false; }, start + 20'000'000).code(), JAL_ERROR_TIMEOUT);
  EXPECT_GE(now_ns(), start + 20'000'000);
}

TEST_F(SessionTest, WaitWithADeadlineThatPassedLooksOnce) {
  int looks = 0;
  EXPECT_EQ(session_
                ->wait(
                    [&] {
                      ++looks;
                      return false;
                    },
                    0)
                .code(),
            JAL_ERROR_TIMEOUT);
  EXPECT_EQ(looks, 2);  // before and after one step
}

TEST_F(SessionTest, RecordNeverWrittenIsEmpty) {
  EXPECT_FALSE(session_->record(0).has_value());
  EXPECT_FALSE(session_->record(1).has_value());
}

}  // namespace
}  // namespace jal::drv
