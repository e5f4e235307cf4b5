// The rendezvous directory: which one, who may own it, and locks that say who lives.
#include "driver/base/runtime_dir.hpp"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

namespace jal::drv {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class RuntimeDirTest : public ::testing::Test {
 protected:
  RuntimeDirTest() {
    char name[] = "/tmp/jal-rendezvous-XXXXXX";
    root_ = mkdtemp(name);
    setenv("JAL_RUNTIME_DIR", root_.c_str(), 1);
  }
  ~RuntimeDirTest() override {
    unsetenv("JAL_RUNTIME_DIR");
    unsetenv("XDG_RUNTIME_DIR");
    std::filesystem::remove_all(root_);
  }
  void touch(const std::string& path) { std::ofstream(path) << "x"; }
  static bool exists(const std::string& path) { return access(path.c_str(), F_OK) == 0; }

  std::string root_, path_, error_;
};

TEST_F(RuntimeDirTest, SettingThenXdgThenTmp) {
  ASSERT_EQ(runtime_dir(false, &path_, &error_), JAL_OK) << error_;
  EXPECT_EQ(path_, root_);
  unsetenv("JAL_RUNTIME_DIR");
  setenv("XDG_RUNTIME_DIR", root_.c_str(), 1);
  EXPECT_EQ(runtime_dir(false, &path_, &error_), JAL_ERROR_FILE_NOT_FOUND);
  ASSERT_EQ(runtime_dir(true, &path_, &error_), JAL_OK) << error_;
  EXPECT_EQ(path_, root_ + "/jal");
  struct stat info {};
  ASSERT_EQ(stat(path_.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 07777u, 0700u);
  setenv("XDG_RUNTIME_DIR", "/nonexistent", 1);
  runtime_dir(false, &path_, &error_);
  if (runtime_dir(false, &path_, &error_) == JAL_OK) {
    EXPECT_EQ(path_, "/tmp/jal-" + std::to_string(geteuid()));
  } else {
    EXPECT_THAT(error_, HasSubstr("/tmp/jal-" + std::to_string(geteuid())));
  }
}

TEST_F(RuntimeDirTest, OpenToOthersIsRefusedWithTheFix) {
  chmod(root_.c_str(), 0777);
  path_ = "unchanged";
  EXPECT_EQ(runtime_dir(true, &path_, &error_), JAL_ERROR_BAD_RUNTIME_DIR);
  EXPECT_THAT(error_, HasSubstr("0777"));
  EXPECT_THAT(error_, HasSubstr("chmod 700 " + root_));
  EXPECT_EQ(path_, "unchanged");
}

TEST_F(RuntimeDirTest, FilesAndLinksAreRefused) {
  touch(root_ + "/file");
  setenv("JAL_RUNTIME_DIR", (root_ + "/file").c_str(), 1);
  EXPECT_EQ(runtime_dir(true, &path_, &error_), JAL_ERROR_BAD_RUNTIME_DIR);
  EXPECT_THAT(error_, HasSubstr("no directory"));
  std::filesystem::create_directory_symlink(root_, root_ + "/link");
  setenv("JAL_RUNTIME_DIR", (root_ + "/link").c_str(), 1);
  EXPECT_EQ(runtime_dir(true, &path_, &error_), JAL_ERROR_BAD_RUNTIME_DIR);
  EXPECT_THAT(error_, HasSubstr("symbolic link"));
  setenv("JAL_RUNTIME_DIR", (root_ + "/missing/deep").c_str(), 1);
  EXPECT_EQ(runtime_dir(true, &path_, &error_), JAL_ERROR_BAD_RUNTIME_DIR);
  EXPECT_THAT(error_, HasSubstr("cannot be created"));
}

TEST_F(RuntimeDirTest, ForeignDirectoryIsRefused) {
  if (geteuid() == 0) {
    ASSERT_EQ(chown(root_.c_str(), 12345, 12345), 0);
  } else {
    setenv("JAL_RUNTIME_DIR", "/usr", 1);
  }
  EXPECT_EQ(runtime_dir(true, &path_, &error_), JAL_ERROR_BAD_RUNTIME_DIR);
  EXPECT_THAT(error_, HasSubstr("belongs to user"));
}

TEST_F(RuntimeDirTest, InstanceNames) {
  for (const char* good : {"a", "farm-1", "A.b_c", "private-0123456789abcdef"})
    EXPECT_TRUE(is_instance_name(good)) << good;
  for (const char* bad :
       {"", ".", "..", ".x", "a/b", "a b", "\n", "1234567890123456789012345678901234567890123456789"}) {
    EXPECT_FALSE(is_instance_name(bad)) << bad;
  }
}

TEST_F(RuntimeDirTest, LockIsExclusiveAndItsFilesGoWithIt) {
  InstanceLock lock;
  ASSERT_EQ(lock.acquire(root_, "one", &error_), JAL_OK) << error_;
  touch(telemetry_path(root_, "one"));
  EXPECT_TRUE(instance_is_alive(root_, "one"));
  EXPECT_FALSE(instance_is_alive(root_, "two"));
  EXPECT_THAT(instance_names(root_), ElementsAre("one"));
  InstanceLock second;
  EXPECT_EQ(second.acquire(root_, "one", &error_), JAL_ERROR_BUSY);
  EXPECT_THAT(error_, HasSubstr("instance one is running"));
  lock.release();
  EXPECT_FALSE(instance_is_alive(root_, "one"));
  EXPECT_TRUE(std::filesystem::is_empty(root_));
  EXPECT_EQ(second.acquire(root_, "one", &error_), JAL_OK) << error_;
}

TEST_F(RuntimeDirTest, DeadProcessLeavesFilesThatAreRemoved) {
  int ready[2];
  ASSERT_EQ(pipe(ready), 0);
  const pid_t child = fork();
  if (child == 0) {
    InstanceLock lock;
    std::string error;
    const bool good = lock.acquire(root_, "private-dead", &error) == JAL_OK;
    std::ofstream(telemetry_path(root_, "private-dead")) << "x";
    if (write(ready[1], good ? "y" : "n", 1) != 1) _exit(1);
    pause();
    _exit(0);
  }
  char answer = 0;
  ASSERT_EQ(read(ready[0], &answer, 1), 1);
  ASSERT_EQ(answer, 'y');
  touch(telemetry_path(root_, "named"));
  EXPECT_TRUE(instance_is_alive(root_, "private-dead"));
  EXPECT_EQ(remove_stale_private_instances(root_), 0);
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  close(ready[0]);
  close(ready[1]);
  EXPECT_FALSE(instance_is_alive(root_, "private-dead"));
  EXPECT_EQ(remove_stale_private_instances(root_), 1);
  EXPECT_FALSE(exists(telemetry_path(root_, "private-dead")));
  EXPECT_FALSE(exists(lock_path(root_, "private-dead")));
  EXPECT_TRUE(exists(telemetry_path(root_, "named"))) << "only private ones are nobody's business";
}

TEST_F(RuntimeDirTest, ChildOfForkDoesNotKeepTheInstanceAlive) {
  InstanceLock lock;
  ASSERT_EQ(lock.acquire(root_, "parent", &error_), JAL_OK);
  int ready[2];
  ASSERT_EQ(pipe(ready), 0);
  const pid_t child = fork();
  if (child == 0) {
    lock.abandon();
    if (write(ready[1], "y", 1) != 1) _exit(1);
    pause();
    _exit(0);
  }
  char answer = 0;
  ASSERT_EQ(read(ready[0], &answer, 1), 1);
  EXPECT_TRUE(instance_is_alive(root_, "parent")) << "the child's closing must not unlock";
  lock.abandon();
  EXPECT_FALSE(instance_is_alive(root_, "parent"));
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  close(ready[0]);
  close(ready[1]);
}

}  // namespace
}  // namespace jal::drv
