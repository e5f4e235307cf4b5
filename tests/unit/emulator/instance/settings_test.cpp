// Settings of an instance: options before environment before defaults; what is not understood is refused by name.
#include "emulator/instance/settings.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

namespace jal::emu {
namespace {

using ::testing::HasSubstr;

class SettingsTest : public ::testing::Test {
 protected:
  SettingsTest() { clear(); }
  ~SettingsTest() override { clear(); }
  static void clear() {
    for (const char* name :
         {"JAL_DEVICES", "JAL_MODEL", "JAL_WORKERS", "JAL_SANITIZE", "JAL_HOST_BUDGET", "JAL_KERNEL_DEADLINE"}) {
      unsetenv(name);
    }
  }
  jal_status_t read(const jal_instance_options* from) { return read_settings(from, &settings, &error); }
  std::string refusal(const char* name, const char* value) {
    setenv(name, value, 1);
    EXPECT_EQ(read(nullptr), JAL_ERROR_INVALID_ARGUMENT) << name << "=" << value;
    unsetenv(name);
    return error;
  }

  jal_instance_options options = {sizeof options, 0, nullptr, nullptr, 0, 0, 0, 0, nullptr, {}};
  Settings settings;
  std::string error;
};

TEST_F(SettingsTest, Defaults) {
  ASSERT_EQ(read(nullptr), JAL_OK) << error;
  EXPECT_EQ(settings.device_count, 1u);
  EXPECT_EQ(settings.model, "jal1-a0");
  EXPECT_EQ(settings.name, "");
  EXPECT_GE(settings.worker_threads, 1u);
  EXPECT_EQ(settings.sanitize, 0u);
  EXPECT_GT(settings.host_budget_bytes, 1ull << 26);
  EXPECT_EQ(settings.kernel_deadline_ns, 30'000'000'000u);
}

TEST_F(SettingsTest, EnvironmentThenOptions) {
  setenv("JAL_DEVICES", "3", 1);
  setenv("JAL_MODEL", "jal-test4", 1);
  setenv("JAL_WORKERS", "2", 1);
  setenv("JAL_SANITIZE", "memory,race", 1);
  setenv("JAL_HOST_BUDGET", "64M", 1);
  setenv("JAL_KERNEL_DEADLINE", "0.25", 1);
  ASSERT_EQ(read(&options), JAL_OK) << error;
  EXPECT_EQ(settings.device_count, 3u);
  EXPECT_EQ(settings.model, "jal-test4");
  EXPECT_EQ(settings.worker_threads, 2u);
  EXPECT_EQ(settings.sanitize, JAL_SANITIZE_MEMORY | JAL_SANITIZE_RACE);
  EXPECT_EQ(settings.host_budget_bytes, 64ull << 20);
  EXPECT_EQ(settings.kernel_deadline_ns, 250'000'000u);
  options.device_count = 8;
  options.model = "jal1-48";
  options.name = "farm";
  options.worker_threads = 1;
  options.sanitize = JAL_SANITIZE_INIT;
  options.host_budget_bytes = 12345;
  options.kernel_deadline_ns = 99;
  ASSERT_EQ(read(&options), JAL_OK) << error;
  EXPECT_EQ(settings.device_count, 8u);
  EXPECT_EQ(settings.model, "jal1-48");
  EXPECT_EQ(settings.name, "farm");
  EXPECT_EQ(settings.worker_threads, 1u);
  EXPECT_EQ(settings.sanitize, JAL_SANITIZE_MEMORY | JAL_SANITIZE_RACE | JAL_SANITIZE_INIT) << "bits are or-ed";
  EXPECT_EQ(settings.host_budget_bytes, 12345u);
  EXPECT_EQ(settings.kernel_deadline_ns, 99u);
}

TEST_F(SettingsTest, BadEnvironmentIsNamed) {
  EXPECT_THAT(refusal("JAL_DEVICES", "0"), HasSubstr("JAL_DEVICES is \"0\"; allowed: 1 to 8"));
  for (const char* value : {"9", "two", "1x", "-1"}) refusal("JAL_DEVICES", value);
  for (const char* value : {"0", "9", "many"}) refusal("JAL_WORKERS", value);
  EXPECT_THAT(refusal("JAL_SANITIZE", "memory,speed"), HasSubstr("memory, init, race, locality"));
  for (const char* value : {",", "memory,", "Memory"}) refusal("JAL_SANITIZE", value);
  for (const char* value : {"0", "lots", "1GB"}) refusal("JAL_HOST_BUDGET", value);
  for (const char* value : {"0", "-1", "1s", "nan", "inf"}) refusal("JAL_KERNEL_DEADLINE", value);
}

TEST_F(SettingsTest, BadOptionsAreNamed) {
  options.struct_size = 8;
  EXPECT_EQ(read(&options), JAL_ERROR_WRONG_STRUCT_SIZE);
  options.struct_size = sizeof options;
  options.reserved[3] = 1;
  EXPECT_EQ(read(&options), JAL_ERROR_RESERVED_NOT_ZERO);
  options.reserved[3] = 0;
  options.device_count = 9;
  EXPECT_EQ(read(&options), JAL_ERROR_INVALID_ARGUMENT);
  options.device_count = 0;
  options.worker_threads = 9;
  EXPECT_EQ(read(&options), JAL_ERROR_INVALID_ARGUMENT);
  options.worker_threads = 0;
  options.sanitize = 16;
  EXPECT_EQ(read(&options), JAL_ERROR_INVALID_ARGUMENT);
  options.sanitize = 0;
  for (const char* name : {"", "a/b", "private-x", ".hidden"}) {
    options.name = name;
    EXPECT_EQ(read(&options), JAL_ERROR_INVALID_ARGUMENT) << name;
  }
  options.name = nullptr;
  options.trace_path = "trace.pftrace";
  EXPECT_EQ(read(&options), JAL_ERROR_UNIMPLEMENTED);
  EXPECT_THAT(error, HasSubstr("set_trace_sink"));
}

}  // namespace
}  // namespace jal::emu
