// Start and end of the library, devices, fork.
#include <sys/wait.h>

#include "tests/unit/libjal/library_fixture.hpp"

namespace jal::test {
namespace {

class Init : public LibraryTest {
 protected:
  Init() : LibraryTest(2) {}
};

TEST_F(Init, DeviceInfoDescribesTheChip) {
  EXPECT_STREQ(info_.model, "jal-test4");
  EXPECT_EQ(info_.index, 0u);
  EXPECT_EQ(info_.cores, info_.grid_rows * info_.grid_cols);
  EXPECT_EQ(info_.core_mask, (1ull << info_.cores) - 1);
  EXPECT_EQ(info_.slice_mask, (1ull << info_.slices) - 1);
  EXPECT_EQ(info_.chip_bytes, info_.slice_bytes * info_.slices + info_.reserved_bytes);
  EXPECT_GT(info_.hbm_bytes_per_second, 0u);
  EXPECT_GT(info_.rated_milliwatts, 0u);
  EXPECT_NE(info_.features & JAL_FEATURE_EMULATED, 0u);
  EXPECT_EQ(info_.abi_version, 1u);
  EXPECT_STREQ(info_.firmware_version, jal_version());
  EXPECT_EQ(std::strlen(info_.uuid), 36u);
  EXPECT_EQ(info_.uuid[14], '4');  // RFC 9562, version 4
  std::uint32_t count = 0;
  JAL_EXPECT_OK(jal_device_count(&count));
  EXPECT_EQ(count, 2u);
  jal_device_t other = nullptr, again = nullptr;
  JAL_EXPECT_OK(jal_device_get(1, &other));
  JAL_EXPECT_OK(jal_device_get(0, &again));
  EXPECT_NE(other, device_);
  EXPECT_EQ(again, device_);
  JAL_EXPECT_FAILS(jal_device_get(2, &other), JAL_ERROR_NO_DEVICE, "there are 2");
}

TEST_F(Init, CallsNestAndOptionsMustAgree) {
  JAL_EXPECT_OK(jal_init(nullptr));
  JAL_EXPECT_OK(jal_init(&options_));
  jal_init_options other = options_;
  other.device_count = 1;
  JAL_EXPECT_FAILS(jal_init(&other), JAL_ERROR_INVALID_ARGUMENT, "other options");
  JAL_EXPECT_OK(jal_shutdown());
  JAL_EXPECT_OK(jal_shutdown());
  JAL_EXPECT_OK(jal_device_get_info(device_, &info_));  // still open
  close();
  JAL_EXPECT_FAILS(jal_shutdown(), JAL_ERROR_NOT_INITIALISED, "jal_init");
  JAL_EXPECT_FAILS(jal_device_get_info(device_, &info_), JAL_ERROR_STALE_HANDLE, "destroyed");
}

TEST_F(Init, ShutdownTurnsEveryHandleStaleAndAnotherInitWorks) {
  jal_memory_t memory = alloc(1, 100);
  jal_stream_t lone = stream();
  jal_event_t event = nullptr;
  JAL_ASSERT_OK(jal_event_create(device_, &event));
  JAL_EXPECT_OK(jal_copy_fill(lone, info_of(memory).address, 7, 64));  // pending at shutdown
  close();
  JAL_EXPECT_FAILS(jal_memory_free(memory), JAL_ERROR_STALE_HANDLE, "memory");
  JAL_EXPECT_FAILS(jal_stream_destroy(lone), JAL_ERROR_STALE_HANDLE, "stream");
  JAL_EXPECT_FAILS(jal_event_query(event), JAL_ERROR_STALE_HANDLE, "event");
  std::uint32_t count = 0;
  JAL_EXPECT_FAILS(jal_device_count(&count), JAL_ERROR_NOT_INITIALISED, "jal_init");
  open();
  EXPECT_EQ(layers().used_by_me_bytes, 0u);
  JAL_EXPECT_FAILS(jal_memory_free(memory), JAL_ERROR_STALE_HANDLE, "memory");
}

TEST_F(Init, OptionsAreChecked) {
  close();
  jal_init_options bad = options_;
  bad.struct_size = 8;
  JAL_EXPECT_FAILS(jal_init(&bad), JAL_ERROR_WRONG_STRUCT_SIZE, "struct_size is 8");
  bad = options_;
  bad.reserved[3] = 1;
  JAL_EXPECT_FAILS(jal_init(&bad), JAL_ERROR_RESERVED_NOT_ZERO, "zero-initialise");
  bad = options_;
  bad.device_count = 9;
  JAL_EXPECT_FAILS(jal_init(&bad), JAL_ERROR_INVALID_ARGUMENT, "9");
  bad = options_;
  bad.model = "no-such-chip";
  JAL_EXPECT_FAILS(jal_init(&bad), JAL_ERROR_BAD_MODEL_FILE, "no-such-chip");
  open();
}

TEST_F(Init, ForkedChildSeesItsParentsHandlesAsForked) {
  jal_memory_t memory = alloc(1, 100);
  jal_stream_t lone = stream();
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    int wrong = 0;
    std::uint32_t count = 0;
    void* pointer = nullptr;
    wrong |= jal_memory_free(memory) != JAL_ERROR_FORKED ? 1 : 0;
    wrong |= jal_stream_query(lone) != JAL_ERROR_FORKED ? 2 : 0;
    wrong |= jal_device_count(&count) != JAL_ERROR_FORKED ? 4 : 0;
    wrong |= jal_host_alloc(device_, 100, &pointer) != JAL_ERROR_FORKED ? 8 : 0;
    wrong |= jal_shutdown() != JAL_ERROR_FORKED ? 16 : 0;
    jal_device_t mine = nullptr;
    wrong |= jal_init(&options_) != JAL_OK || jal_device_get(0, &mine) != JAL_OK ? 32 : 0;
    jal_stream_t fresh = nullptr;
    wrong |= jal_stream_create(mine, nullptr, &fresh) != JAL_OK ? 64 : 0;
    wrong |= jal_shutdown() != JAL_OK ? 128 : 0;
    _exit(wrong);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0);
  JAL_EXPECT_OK(jal_stream_query(lone));  // the parent goes on
  JAL_EXPECT_OK(jal_memory_free(memory));
}

TEST_F(Init, TelemetryPathIsARunningInstancesFile) {
  const char* path = nullptr;
  JAL_ASSERT_OK(jal_telemetry_path(&path));
  EXPECT_TRUE(std::filesystem::exists(path));
  const std::string kept = path;
  close();
  EXPECT_FALSE(std::filesystem::exists(kept));
  open();
}

TEST_F(Init, FidelityAndModelFiguresHaveTexts) {
  const char *feature = nullptr, *level = nullptr, *text = nullptr;
  std::uint32_t rows = 0;
  while (jal_fidelity_at(rows, &feature, &level, &text) == JAL_OK) ++rows;
  EXPECT_GT(rows, 3u);
  EXPECT_STRNE(text, "");
  double value = 0;
  const char *unit = nullptr, *source = nullptr;
  JAL_EXPECT_FAILS(jal_model_value("no.such", &value, &unit, &source), JAL_ERROR_INVALID_ARGUMENT, "no.such");
}

TEST_F(Init, DeviceTimePassesWhenIdling) {
  std::uint64_t before = 0, after = 0;
  std::uint32_t kind = 9;
  JAL_ASSERT_OK(jal_clock_device_ps(device_, &before, &kind));
  EXPECT_EQ(kind, JAL_CLOCK_VIRTUAL);
  JAL_EXPECT_OK(jal_device_idle(device_, 5'000'000, soon()));
  JAL_ASSERT_OK(jal_clock_device_ps(device_, &after, nullptr));
  EXPECT_GE(after - before, 5'000'000'000u);
  JAL_EXPECT_FAILS(jal_device_idle(device_, 4'000'000'000'000, soon()), JAL_ERROR_INVALID_ARGUMENT, "one hour");
}

}  // namespace
}  // namespace jal::test
