// Finding and checking an instance's library; sessions with instances that are not sound.
#include "driver/loader.hpp"

#include <gmock/gmock.h>

#include <cstdlib>

#include "driver/base/error_frames.hpp"
#include "driver/queue.hpp"
#include "tests/unit/driver/fake_instance.hpp"

namespace jal::drv {
namespace {

using testing::AllOf;
using testing::HasSubstr;

template <std::uint32_t Lowest, std::uint32_t Highest>
const jal_instance_api* offers(std::uint32_t version) {
  return version >= Lowest && version <= Highest ? &FakeInstance::api() : nullptr;
}

TEST(Loader, TheVersionAskedForIsTaken) {
  const auto api = check_instance_api(offers<1, 3>, "x.so");
  ASSERT_TRUE(api.ok());
  EXPECT_EQ(*api, &FakeInstance::api());
}

TEST(Loader, OnlyNewerVersionsReturnAbiTooNewWithBothRanges) {
  EXPECT_EQ(check_instance_api(offers<2, 5>, "x.so").code(), JAL_ERROR_ABI_TOO_NEW);
  EXPECT_THAT(last_error_message(),
              AllOf(HasSubstr("x.so"), HasSubstr("2..5"), HasSubstr("1..1"), HasSubstr("update libjal")));
}

TEST(Loader, NoVersionAtAllReturnsHandshakeRefused) {
  EXPECT_EQ(check_instance_api(offers<1, 0>, "x.so").code(), JAL_ERROR_HANDSHAKE_REFUSED);
}

TEST(Loader, ATableThatIsTooShortReturnsHandshakeRefused) {
  static jal_instance_api shorter = FakeInstance::api();
  shorter.struct_size = 16;
  EXPECT_EQ(check_instance_api([](std::uint32_t) -> const jal_instance_api* { return &shorter; }, "x.so").code(),
            JAL_ERROR_HANDSHAKE_REFUSED);
  EXPECT_THAT(last_error_message(), HasSubstr("16 bytes"));
}

TEST(Loader, MissingLibraryReturnsNoInstanceAndSaysWhereItLooked) {
  setenv("JAL_EMULATOR", "/nonexistent/libjal-emulator.so", 1);
  EXPECT_EQ(load_instance_api().code(), JAL_ERROR_NO_INSTANCE);
  EXPECT_THAT(last_error_message(),
              AllOf(HasSubstr("/nonexistent/libjal-emulator.so: not there"), HasSubstr("JAL_EMULATOR")));
  unsetenv("JAL_EMULATOR");
}

TEST(Loader, ALibraryThatIsNoneReturnsNoInstanceWithTheLoadersWords) {
  setenv("JAL_EMULATOR", "/proc/self/status", 1);
  EXPECT_EQ(load_instance_api().code(), JAL_ERROR_NO_INSTANCE);
  EXPECT_THAT(last_error_message(), HasSubstr("/proc/self/status: "));
  unsetenv("JAL_EMULATOR");
}

class UnsoundInstance : public testing::Test {
 protected:
  void SetUp() override { FakeInstance::reset(); }
  Status attach() {
    session.reset();
    auto opened = Instance::open(FakeInstance::api(), {});
    EXPECT_TRUE(opened.ok());
    instance = std::move(*opened);
    auto attached = Session::open(*instance, 0);
    if (attached.ok()) session = std::move(*attached);
    return attached.status();
  }
  FakeInstance& fake() { return FakeInstance::current(); }
  std::unique_ptr<Instance> instance;
  std::unique_ptr<Session> session;
};

TEST_F(UnsoundInstance, OpenRefusedReturnsItsStatusAndWords) {
  fake().open_status = JAL_ERROR_BAD_MODEL_FILE;
  EXPECT_EQ(Instance::open(FakeInstance::api(), {}).code(), JAL_ERROR_BAD_MODEL_FILE);
  EXPECT_STREQ(last_error_message(), "the fake was told to refuse");
  EXPECT_EQ(fake().closes, 0);
}

TEST_F(UnsoundInstance, AttachRefusedWithoutWordsReturnsTheStatusText) {
  fake().attach_status = JAL_ERROR_BOOT_FAILED;
  EXPECT_EQ(attach().code(), JAL_ERROR_BOOT_FAILED);
  EXPECT_THAT(last_error_message(),
              AllOf(HasSubstr(status_text(JAL_ERROR_BOOT_FAILED)), HasSubstr("opening device 0")));
  EXPECT_EQ(fake().detaches, 0);
}

TEST_F(UnsoundInstance, AnswerWithoutMagicReturnsHandshakeRefused) {
  fake().hello.magic = 0;
  EXPECT_EQ(attach().code(), JAL_ERROR_HANDSHAKE_REFUSED);
  EXPECT_EQ(fake().detaches, 1);
}

TEST_F(UnsoundInstance, AgreedVersionOutsideOursReturnsHandshakeRefused) {
  fake().hello.abi_agreed = JAL_ABI_VERSION_MAX + 1;
  EXPECT_EQ(attach().code(), JAL_ERROR_HANDSHAKE_REFUSED);
}

TEST_F(UnsoundInstance, AChipBeyondTheContractReturnsHandshakeRefused) {
  fake().chip.cores = 4000;
  EXPECT_EQ(attach().code(), JAL_ERROR_HANDSHAKE_REFUSED);
  EXPECT_THAT(last_error_message(), HasSubstr("4000 cores"));
}

TEST_F(UnsoundInstance, ALostDeviceEndsAWaitWithItsCause) {
  ASSERT_TRUE(attach().ok());
  fake().on_step = [](jal_client_region& region) {
    region.lost_status = static_cast<std::uint32_t>(JAL_ERROR_KERNEL_DEADLINE);
    return JAL_STEP_LOST;
  };
  EXPECT_EQ(session->ask(JAL_MAILBOX_ECHO, {}).code(), JAL_ERROR_DEVICE_LOST);
  EXPECT_THAT(last_error_message(), HasSubstr("KERNEL_DEADLINE"));
}

TEST_F(UnsoundInstance, AQueueThatNobodyServesReturnsQueueFullAtItsDeadline) {
  ASSERT_TRUE(attach().ok());
  QueueOptions options;
  options.depth = JAL_QUEUE_DEPTH_MIN;
  options.full_timeout_ns = 5'000'000;
  auto queue = Queue::create(*session, options);
  ASSERT_TRUE(queue.ok());
  for (std::uint32_t i = 0; i < JAL_QUEUE_DEPTH_MIN; ++i) ASSERT_EQ((*queue)->push(JAL_PACKET_COUNT, {}), JAL_OK);
  EXPECT_EQ((*queue)->push(JAL_PACKET_COUNT, {}), JAL_ERROR_QUEUE_FULL);
  EXPECT_EQ((*queue)->wait(now_ns() + 5'000'000).code(), JAL_ERROR_TIMEOUT);
}

TEST_F(UnsoundInstance, ARecordOfAnotherNumberIsNotHandedOut) {
  ASSERT_TRUE(attach().ok());
  fake().region->record_count = 1000;
  fake().region->records[(990 - 1) % JAL_ERROR_RECORDS].id = 12;
  EXPECT_FALSE(session->record(990).has_value());
  fake().region->records[(990 - 1) % JAL_ERROR_RECORDS].id = 990;
  std::memset(fake().region->records[(990 - 1) % JAL_ERROR_RECORDS].text, 'x', 192);
  const auto record = session->record(990);
  ASSERT_TRUE(record.has_value());
  EXPECT_EQ(std::strlen(record->text), 191u);  // terminated, whatever the device wrote
  EXPECT_FALSE(session->record(1000 - JAL_ERROR_RECORDS).has_value());
}

TEST_F(UnsoundInstance, ARecordThatMayBeOverwrittenByNowIsNotHandedOut) {
  ASSERT_TRUE(attach().ok());
  fake().region->record_count = 1000;
  // Record 1001 goes where 937 is and is counted when it is whole.
  for (const std::uint32_t id : {937u, 938u}) fake().region->records[(id - 1) % JAL_ERROR_RECORDS].id = id;
  EXPECT_FALSE(session->record(937).has_value());
  EXPECT_TRUE(session->record(938).has_value());
}

}  // namespace
}  // namespace jal::drv
