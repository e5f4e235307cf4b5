// Several threads drive one instance: each its own client, on the same and on different devices.
#include <gtest/gtest.h>
#include <sched.h>

#include <thread>
#include <vector>

#include "tests/unit/emulator/instance/raw_client.hpp"

namespace jal::emu {
namespace {

/// Copies a growing number in and out through its own queue; returns the rounds that came back right.
int run_client(jal_instance* instance, std::uint32_t device, std::uint64_t salt) {
  RawClient client;
  if (client.attach(instance, device) != JAL_OK || client.create_queue() != JAL_OK) return -1;
  std::uint64_t offset = 0, reservation = 0;
  if (client.allocate(0b1111, 64, &offset, &reservation) != JAL_OK) return -1;
  int good = 0;
  for (std::uint64_t round = 1; round <= 200; ++round) {
    std::uint64_t in = round * salt, out = 0;
    client.copy(JAL_ADDRESS_HBM(2, offset), RawClient::host(&in), 8, 0, 1, 2 * round - 1);
    client.copy(RawClient::host(&out), JAL_ADDRESS_HBM(2, offset), 8, 0, 1, 2 * round);
    if (!client.wait(1, 2 * round)) return -1;
    good += out == in;
  }
  return good;
}

TEST(InstanceThreads, ClientsOfOneDeviceStepItInTurn) {
  RawInstance farm;
  ASSERT_EQ(farm.status, JAL_OK) << farm.error;
  int good[4] = {};
  std::vector<std::thread> threads;
  for (std::uint64_t i = 0; i < 4; ++i) threads.emplace_back([&, i] { good[i] = run_client(farm.instance, 0, 3 + i); });
  for (auto& thread : threads) thread.join();
  for (const int count : good) EXPECT_EQ(count, 200);
}

TEST(InstanceThreads, DevicesAreIndependent) {
  jal_instance_options options = {};
  options.device_count = 3;
  RawInstance farm(options);
  ASSERT_EQ(farm.status, JAL_OK) << farm.error;
  int good[3] = {};
  std::vector<std::thread> threads;
  for (std::uint32_t i = 0; i < 3; ++i) threads.emplace_back([&, i] { good[i] = run_client(farm.instance, i, 3 + i); });
  for (auto& thread : threads) thread.join();
  for (const int count : good) EXPECT_EQ(count, 200);
}

TEST(InstanceThreads, TraceSinkMayChangeWhileOthersStep) {
  RawInstance farm;
  ASSERT_EQ(farm.status, JAL_OK) << farm.error;
  int good = 0;
  std::uint64_t spans = 0;  // written only under the device's lock
  std::thread worker([&] { good = run_client(farm.instance, 0, 7); });
  for (int i = 0; i < 200; ++i) {
    emulator_api()->set_trace_sink(
        farm.instance, [](void* user, const jal_trace_span*) { ++*static_cast<std::uint64_t*>(user); }, &spans);
    emulator_api()->set_trace_sink(farm.instance, nullptr, nullptr);
    // Once removed the sink is not called any more: its memory is the caller's again.
    const std::uint64_t seen = spans;
    sched_yield();
    EXPECT_EQ(spans, seen);
  }
  worker.join();
  EXPECT_EQ(good, 200);
}

}  // namespace
}  // namespace jal::emu
