// An instance of small chips (jal-test4) through the real loader, in a rendezvous directory of its own.
#pragma once
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>

#include "driver/base/error_frames.hpp"
#include "driver/instance.hpp"
#include "driver/loader.hpp"
#include "driver/session.hpp"

namespace jal::drv {

class ChipTest : public testing::Test {
 protected:
  void SetUp() override {
    char name[] = "/tmp/jal-driver-XXXXXX";
    dir_ = mkdtemp(name);
    setenv("JAL_RUNTIME_DIR", dir_.c_str(), 1);
    auto api = load_instance_api();
    ASSERT_TRUE(api.ok()) << last_error_message();
    jal_instance_options options{};
    options.struct_size = sizeof options;
    options.model = "jal-test4";
    auto opened = Instance::open(**api, options);
    ASSERT_TRUE(opened.ok()) << last_error_message();
    instance_ = std::move(*opened);
    auto session = Session::open(*instance_, 0);
    ASSERT_TRUE(session.ok()) << last_error_message();
    session_ = std::move(*session);
  }
  void TearDown() override {
    session_.reset();
    instance_.reset();
    std::filesystem::remove_all(dir_);
    unsetenv("JAL_RUNTIME_DIR");
  }
  static std::uint64_t soon() { return now_ns() + 20'000'000'000; }

  std::string dir_;
  std::unique_ptr<Instance> instance_;
  std::unique_ptr<Session> session_;
};

}  // namespace jal::drv
