// Reading telemetry files, whole and broken ones.
#include "driver/telemetry_reader.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "driver/base/error_frames.hpp"
#include "driver/base/runtime_dir.hpp"

namespace jal::drv {
namespace {

class TelemetryReader : public testing::Test {
 protected:
  void SetUp() override {
    char text[] = "/tmp/jal_telemetry_test_XXXXXX";
    ASSERT_NE(mkdtemp(text), nullptr);
    dir_ = text;
    setenv("JAL_RUNTIME_DIR", dir_.c_str(), 1);
    head_.magic = JAL_TELEMETRY_MAGIC;
    head_.version = JAL_TELEMETRY_VERSION;
    head_.device_count = 2;
    head_.device_offset = 4096;
    std::strcpy(head_.instance, "one");
    pages_.resize(2);
    for (std::uint32_t i = 0; i < 2; ++i) {
      pages_[i].sequence = 4;
      pages_[i].count = 2;
      std::strcpy(pages_[i].model, "jal-test4");
      pages_[i].entry[0] = {JAL_TAG_CLOCK_PS, 0, 1000 + i};
      pages_[i].entry[1] = {JAL_TAG_UNIT_ENERGY_NJ, JAL_UNIT_HBM, 77};
    }
  }
  void TearDown() override {
    for (const std::string& name : instance_names(dir_)) std::remove(telemetry_path(dir_, name).c_str());
    rmdir(dir_.c_str());
  }
  std::string path() const { return telemetry_path(dir_, "one"); }
  void write(std::size_t bytes = 3 * 4096) const {
    std::vector<char> file(3 * 4096);
    std::memcpy(file.data(), &head_, sizeof head_);
    std::memcpy(file.data() + 4096, pages_.data(), 2 * sizeof(jal_telemetry_page));
    FILE* out = std::fopen(path().c_str(), "wb");
    ASSERT_NE(out, nullptr);
    ASSERT_EQ(std::fwrite(file.data(), 1, bytes, out), bytes);
    std::fclose(out);
  }
  jal_status_t open_status() const { return TelemetryFile::open(path()).code(); }

  std::string dir_;
  jal_telemetry_head head_{};
  std::vector<jal_telemetry_page> pages_;
};

TEST_F(TelemetryReader, WholeFileGivesPagesByDevice) {
  write();
  auto file = TelemetryFile::open(path());
  ASSERT_TRUE(file.ok()) << last_error_message();
  EXPECT_STREQ(file->head().instance, "one");
  jal_telemetry_page page;
  ASSERT_TRUE(file->read(1, &page).ok()) << last_error_message();
  EXPECT_EQ(find_value(page, JAL_TAG_CLOCK_PS), 1001u);
  EXPECT_EQ(find_value(page, JAL_TAG_UNIT_ENERGY_NJ, JAL_UNIT_HBM), 77u);
  EXPECT_FALSE(find_value(page, JAL_TAG_UNIT_ENERGY_NJ, JAL_UNIT_NOC).has_value());
  EXPECT_EQ(file->read(2, &page).code(), JAL_ERROR_NO_DEVICE);
}

TEST_F(TelemetryReader, FilesOfAnotherKindAreRefused) {
  EXPECT_EQ(open_status(), JAL_ERROR_NO_TELEMETRY);
  write(100);
  EXPECT_EQ(open_status(), JAL_ERROR_BAD_TELEMETRY);
  head_.magic = 0;
  write();
  EXPECT_EQ(open_status(), JAL_ERROR_BAD_TELEMETRY);
  EXPECT_NE(std::strstr(last_error_message(), "still starting"), nullptr);
  head_.magic = JAL_TELEMETRY_MAGIC;
  head_.version = 9;
  write();
  EXPECT_EQ(open_status(), JAL_ERROR_BAD_TELEMETRY);
  head_.version = JAL_TELEMETRY_VERSION;
  head_.device_count = UINT32_MAX;
  write();
  EXPECT_EQ(open_status(), JAL_ERROR_BAD_TELEMETRY);
  head_.device_count = 2;
  head_.device_offset = 8;
  write();
  EXPECT_EQ(open_status(), JAL_ERROR_BAD_TELEMETRY);
  std::remove(path().c_str());
  ASSERT_EQ(mkfifo(path().c_str(), 0600), 0);
  EXPECT_EQ(open_status(), JAL_ERROR_BAD_TELEMETRY);
}

TEST_F(TelemetryReader, TornPageGivesUpAfterABoundedTime) {
  pages_[0].sequence = 5;
  write();
  auto file = TelemetryFile::open(path());
  ASSERT_TRUE(file.ok());
  jal_telemetry_page page{};
  const std::uint64_t start = now_ns();
  EXPECT_EQ(file->read(0, &page).code(), JAL_ERROR_BAD_TELEMETRY);
  EXPECT_LT(now_ns() - start, 2'000'000'000u);
  EXPECT_EQ(page.sequence, 0u);  // a failed read leaves the output alone
  EXPECT_TRUE(file->read(1, &page).ok());
}

TEST_F(TelemetryReader, HostileContentsAreBounded) {
  pages_[0].count = 100000;
  std::memset(head_.instance, 'x', sizeof head_.instance);
  write();
  auto file = TelemetryFile::open(path());
  ASSERT_TRUE(file.ok());
  EXPECT_EQ(std::strlen(file->head().instance), sizeof head_.instance - 1);
  jal_telemetry_page page;
  EXPECT_EQ(file->read(0, &page).code(), JAL_ERROR_BAD_TELEMETRY);
  ASSERT_EQ(truncate(path().c_str(), 5000), 0);
  EXPECT_EQ(file->read(1, &page).code(), JAL_ERROR_BAD_TELEMETRY);
}

TEST_F(TelemetryReader, ListTellsLiveInstancesFromDeadFiles) {
  write();
  auto list = list_instances();
  ASSERT_TRUE(list.ok());
  ASSERT_EQ(list->size(), 1u);
  EXPECT_EQ((*list)[0].name, "one");
  EXPECT_FALSE((*list)[0].is_alive);
  InstanceLock lock;
  std::string error;
  ASSERT_EQ(lock.acquire(dir_, "one", &error), JAL_OK) << error;
  list = list_instances();
  ASSERT_TRUE(list.ok());
  EXPECT_TRUE((*list)[0].is_alive);
}

TEST_F(TelemetryReader, MissingDirectoryIsAnEmptyList) {
  setenv("JAL_RUNTIME_DIR", (dir_ + "/none").c_str(), 1);
  const auto list = list_instances();
  ASSERT_TRUE(list.ok());
  EXPECT_TRUE(list->empty());
}

}  // namespace
}  // namespace jal::drv
