// A test's own instance of small chips, in a rendezvous directory of its own, opened through the public face.
//
// What it is not: a fake; the emulator of this build is loaded as an application would load it.
#pragma once
#include <gtest/gtest.h>
#include <jal/jal.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <string>
#include <vector>

namespace jal::test {

#define JAL_EXPECT_OK(call) EXPECT_EQ((call), JAL_OK) << jal_last_error_message()
#define JAL_ASSERT_OK(call) ASSERT_EQ((call), JAL_OK) << jal_last_error_message()
/// The call fails with that status, and its message contains `words`.
#define JAL_EXPECT_FAILS(call, status, words)                                                       \
  do {                                                                                              \
    const jal_status_t jal_got_ = (call);                                                           \
    EXPECT_EQ(jal_got_, (status)) << jal_status_name(jal_got_) << ": " << jal_last_error_message(); \
    EXPECT_EQ(jal_last_error_status(), (status));                                                   \
    EXPECT_NE(std::strstr(jal_last_error_message(), (words)), nullptr) << jal_last_error_message(); \
  } while (false)

inline std::uint64_t soon() { return jal_clock_deadline(20'000'000'000); }

class LibraryTest : public testing::Test {
 protected:
  explicit LibraryTest(std::uint32_t device_count = 1, const char* model = "jal-test4") {
    char name[] = "/tmp/jal-libjal-XXXXXX";
    dir_ = mkdtemp(name);
    setenv("JAL_RUNTIME_DIR", dir_.c_str(), 1);
    options_.struct_size = sizeof options_;
    options_.device_count = device_count;
    options_.model = model;
  }
  ~LibraryTest() override {
    if (is_open_) close();
    std::filesystem::remove_all(dir_);
  }
  void SetUp() override { open(); }
  void open() {
    JAL_ASSERT_OK(jal_init(&options_));
    is_open_ = true;
    JAL_ASSERT_OK(jal_device_get(0, &device_));
    info_.struct_size = sizeof info_;
    JAL_ASSERT_OK(jal_device_get_info(device_, &info_));
  }
  void close() {
    JAL_EXPECT_OK(jal_shutdown());
    is_open_ = false;
  }
  jal_memory_t alloc(std::uint64_t mask, std::uint64_t bytes, std::uint32_t flags = 0) {
    jal_memory_options options{};
    options.struct_size = sizeof options;
    options.slice_mask = mask;
    options.bytes_per_slice = bytes;
    options.flags = flags;
    jal_memory_t memory = nullptr;
    JAL_EXPECT_OK(jal_memory_alloc(device_, &options, &memory));
    return memory;
  }
  static jal_memory_info info_of(jal_memory_t memory) {
    jal_memory_info info{};
    info.struct_size = sizeof info;
    JAL_EXPECT_OK(jal_memory_get_info(memory, &info));
    return info;
  }
  jal_stream_t stream(std::uint32_t flags = 0, std::uint32_t depth = 0) {
    jal_stream_options options{};
    options.struct_size = sizeof options;
    options.flags = flags;
    options.depth = depth;
    jal_stream_t made = nullptr;
    JAL_EXPECT_OK(jal_stream_create(device_, &options, &made));
    return made;
  }
  jal_memory_layers layers(std::uint32_t slice = JAL_MEMORY_ALL_SLICES) {
    jal_memory_layers layers{};
    layers.struct_size = sizeof layers;
    JAL_EXPECT_OK(jal_memory_query(device_, slice, &layers));
    return layers;
  }

  std::string dir_;
  jal_init_options options_{};
  bool is_open_ = false;
  jal_device_t device_ = nullptr;
  jal_device_info info_{};
};

}  // namespace jal::test
