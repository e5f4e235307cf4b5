// The telemetry file: found in the rendezvous directory while the instance lives, valid once published, gone
// afterwards.
#include "emulator/instance/telemetry_file.hpp"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

namespace jal::emu {
namespace {

using ::testing::HasSubstr;

class TelemetryFileTest : public ::testing::Test {
 protected:
  TelemetryFileTest() {
    char name[] = "/tmp/jal-telemetry-XXXXXX";
    dir = mkdtemp(name);
    setenv("JAL_RUNTIME_DIR", dir.c_str(), 1);
  }
  ~TelemetryFileTest() override {
    unsetenv("JAL_RUNTIME_DIR");
    std::filesystem::remove_all(dir);
  }
  static jal_telemetry_head read_head(const std::string& path) {
    jal_telemetry_head head{};
    std::ifstream(path).read(reinterpret_cast<char*>(&head), sizeof head);
    return head;
  }

  std::string dir, error;
};

TEST_F(TelemetryFileTest, PrivateInstanceHasARandomName) {
  TelemetryFile one, two;
  ASSERT_EQ(one.open("", 1, &error), JAL_OK) << error;
  ASSERT_EQ(two.open("", 1, &error), JAL_OK) << error;
  EXPECT_NE(one.path(), two.path());
  EXPECT_THAT(one.path(), ::testing::MatchesRegex(dir + "/private-[0-9a-f]{16}\\.tel"));
}

TEST_F(TelemetryFileTest, ValidOnlyOncePublished) {
  const mode_t mask = umask(0077);
  TelemetryFile file;
  ASSERT_EQ(file.open("farm", 3, &error), JAL_OK) << error;
  umask(mask);
  EXPECT_EQ(read_head(file.path()).magic, 0u);
  auto& page = *static_cast<jal_telemetry_page*>(file.page(2));
  page.count = 77;
  file.publish();
  const jal_telemetry_head head = read_head(file.path());
  EXPECT_EQ(head.magic, JAL_TELEMETRY_MAGIC);
  EXPECT_EQ(head.version, JAL_TELEMETRY_VERSION);
  EXPECT_EQ(head.device_count, 3u);
  EXPECT_STREQ(head.instance, "farm");
  EXPECT_EQ(head.owner_pid, static_cast<std::uint32_t>(getpid()));
  EXPECT_GT(std::string(head.version_text).size(), 4u);
  EXPECT_GT(std::string(head.program).size(), 3u);
  struct stat info {};
  ASSERT_EQ(stat(file.path().c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 07777u, 0644u);
  EXPECT_EQ(static_cast<std::uint64_t>(info.st_size), head.device_offset + 3 * JAL_TELEMETRY_PAGE_BYTES);
  jal_telemetry_page read_page{};
  std::ifstream stream(file.path());
  stream.seekg(head.device_offset + 2 * JAL_TELEMETRY_PAGE_BYTES);
  stream.read(reinterpret_cast<char*>(&read_page), sizeof read_page);
  EXPECT_EQ(read_page.count, 77u);
}

TEST_F(TelemetryFileTest, ClosedIsGone) {
  {
    TelemetryFile file;
    ASSERT_EQ(file.open("farm", 1, &error), JAL_OK) << error;
    EXPECT_TRUE(drv::instance_is_alive(dir, "farm"));
  }
  EXPECT_TRUE(std::filesystem::is_empty(dir));
}

TEST_F(TelemetryFileTest, NameInUseIsBusyAndLeftAlone) {
  TelemetryFile file, second;
  ASSERT_EQ(file.open("farm", 1, &error), JAL_OK) << error;
  file.publish();
  EXPECT_EQ(second.open("farm", 1, &error), JAL_ERROR_BUSY);
  EXPECT_THAT(error, HasSubstr("farm"));
  EXPECT_EQ(read_head(file.path()).magic, JAL_TELEMETRY_MAGIC);
}

TEST_F(TelemetryFileTest, LeftoversOfTheDeadAreReplaced) {
  std::ofstream(dir + "/farm.tel") << "torn";
  std::ofstream(dir + "/private-0000000000000000.tel") << "torn";
  std::ofstream(dir + "/private-0000000000000000.lock") << "";
  TelemetryFile file;
  ASSERT_EQ(file.open("farm", 1, &error), JAL_OK) << error;
  file.publish();
  EXPECT_EQ(read_head(file.path()).magic, JAL_TELEMETRY_MAGIC);
  EXPECT_FALSE(std::filesystem::exists(dir + "/private-0000000000000000.tel"));
  EXPECT_FALSE(std::filesystem::exists(dir + "/private-0000000000000000.lock"));
}

TEST_F(TelemetryFileTest, UnusableDirectoryIsRefusedWithTheFix) {
  std::filesystem::permissions(dir, std::filesystem::perms::all);
  TelemetryFile file;
  EXPECT_EQ(file.open("", 1, &error), JAL_ERROR_BAD_RUNTIME_DIR);
  EXPECT_THAT(error, HasSubstr("chmod 700"));
}

}  // namespace
}  // namespace jal::emu
