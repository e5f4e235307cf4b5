// Queues on a real (emulated) chip: laps, credit, argument ring, failure and recovery.
#include "driver/queue.hpp"

#include <gmock/gmock.h>
#include <jal/abi/address.h>

#include <thread>
#include <vector>

#include "tests/unit/driver/chip_fixture.hpp"

namespace jal::drv {
namespace {

using testing::HasSubstr;

class QueueTest : public ChipTest {
 protected:
  std::unique_ptr<Queue> make(QueueOptions options = {}) {
    auto queue = Queue::create(*session_, options);
    EXPECT_TRUE(queue.ok()) << last_error_message();
    return std::move(*queue);
  }
  static jal_packet count(std::uint64_t tokens) {
    const jal_count_payload payload = {JAL_PHASE_PREFILL, tokens, {}};
    jal_packet packet = {};
    jal_count_payload_encode(&payload, &packet);
    return packet;
  }
  static jal_packet bad_copy() {
    const jal_copy_payload payload = {0, JAL_ADDRESS_HBM(0, 0), JAL_ADDRESS_HBM(1, 0), 64, 0};
    jal_packet packet = {};
    jal_copy_payload_encode(&payload, &packet);
    return packet;
  }
};

TEST_F(QueueTest, PushManyLapsCompletesEveryPacket) {
  QueueOptions options;
  options.depth = JAL_QUEUE_DEPTH_MIN;
  const auto queue = make(options);
  for (int i = 0; i < 1000; ++i) ASSERT_EQ(queue->push(JAL_PACKET_COUNT, count(1)), JAL_OK);
  EXPECT_TRUE(queue->wait(soon()).ok()) << last_error_message();
  EXPECT_EQ(queue->completed(), 1000u);
}

TEST_F(QueueTest, PushWhenFullWithoutWaitingReturnsQueueFull) {
  QueueOptions options;
  options.depth = JAL_QUEUE_DEPTH_MIN;
  options.waits_for_room = false;
  const auto queue = make(options);
  for (std::uint32_t i = 0; i < JAL_QUEUE_DEPTH_MIN; ++i) ASSERT_EQ(queue->push(JAL_PACKET_COUNT, count(1)), JAL_OK);
  EXPECT_EQ(queue->push(JAL_PACKET_COUNT, count(1)), JAL_ERROR_QUEUE_FULL);
  EXPECT_THAT(last_error_message(), HasSubstr("holds 16 packets"));
  EXPECT_EQ(queue->published(), 16u);  // the failed push changed nothing
  EXPECT_TRUE(queue->wait(soon()).ok());
  EXPECT_EQ(queue->push(JAL_PACKET_COUNT, count(1)), JAL_OK);
}

TEST_F(QueueTest, CreateOutsideTheLimitsReturnsInvalidArgument) {
  for (const std::uint32_t depth : {0u, 8u, 17u, 8192u}) {
    QueueOptions options;
    options.depth = depth;
    EXPECT_EQ(Queue::create(*session_, options).code(), JAL_ERROR_INVALID_ARGUMENT) << depth;
  }
  for (const std::uint32_t bytes : {0u, 2048u, 5000u, 1u << 21}) {
    QueueOptions options;
    options.argument_bytes = bytes;
    EXPECT_EQ(Queue::create(*session_, options).code(), JAL_ERROR_INVALID_ARGUMENT) << bytes;
  }
}

TEST_F(QueueTest, CreateBeyondTheLimitReturnsQueueLimitAndDestroyGivesItBack) {
  std::vector<std::unique_ptr<Queue>> queues;
  for (std::uint32_t i = 0; i < JAL_QUEUES_PER_CLIENT; ++i) queues.push_back(make());
  EXPECT_EQ(Queue::create(*session_, {}).code(), JAL_ERROR_QUEUE_LIMIT);
  queues.pop_back();
  EXPECT_TRUE(Queue::create(*session_, {}).ok());
}

TEST_F(QueueTest, FailurePoisonsDropsAndRecovers) {
  const auto queue = make();
  ASSERT_EQ(queue->push(JAL_PACKET_COUNT, count(1)), JAL_OK);
  ASSERT_EQ(queue->push(JAL_PACKET_COPY, bad_copy()), JAL_OK);
  ASSERT_EQ(queue->push(JAL_PACKET_COUNT, count(1)), JAL_OK);
  EXPECT_EQ(queue->wait(soon()).code(), JAL_ERROR_BAD_ADDRESS);
  EXPECT_THAT(last_error_message(), HasSubstr("copy packet 1 of queue"));
  EXPECT_EQ(queue->completed(), 3u);
  EXPECT_EQ(queue->push(JAL_PACKET_COUNT, count(1)), JAL_ERROR_QUEUE_POISONED);
  EXPECT_THAT(last_error_message(), HasSubstr("BAD_ADDRESS"));
  ASSERT_TRUE(queue->failure_record().has_value());
  EXPECT_EQ(queue->failure_record()->packet_index, 1u);
  ASSERT_TRUE(queue->recover().ok());
  EXPECT_FALSE(queue->failure_record().has_value());
  EXPECT_EQ(queue->push(JAL_PACKET_COUNT, count(1)), JAL_OK);
  EXPECT_TRUE(queue->wait(soon()).ok()) << last_error_message();
}

TEST_F(QueueTest, RecoverCountsWhatNeverRan) {
  const auto queue = make();
  ASSERT_EQ(queue->push(JAL_PACKET_COPY, bad_copy()), JAL_OK);
  while (!queue->is_poisoned()) session_->step();
  const std::uint64_t done = queue->completed();
  EXPECT_EQ(queue->push(JAL_PACKET_COUNT, count(1)), JAL_ERROR_QUEUE_POISONED);
  const auto dropped = queue->recover();
  ASSERT_TRUE(dropped.ok());
  EXPECT_EQ(*dropped, queue->published() - done);
}

TEST_F(QueueTest, QueryDrivesTheDeviceUntilDone) {
  const auto queue = make();
  EXPECT_TRUE(queue->query().ok());
  ASSERT_EQ(queue->push(JAL_PACKET_COUNT, count(1)), JAL_OK);
  Status status = JAL_ERROR_NOT_READY;
  for (int i = 0; i < 100 && status.code() == JAL_ERROR_NOT_READY; ++i) status = queue->query();
  EXPECT_TRUE(status.ok());
}

TEST_F(QueueTest, ArgumentRingWithoutRoomReturnsArgumentRingFull) {
  QueueOptions options;
  options.argument_bytes = JAL_ARGUMENT_BYTES_MAX;
  options.waits_for_room = false;
  const auto queue = make(options);
  void* block = nullptr;
  std::uint64_t word = 0;
  ASSERT_EQ(queue->reserve(3000, &block, &word), JAL_OK);
  EXPECT_EQ(word, 3000u);
  // A dispatch of no module: it fails, but its arguments were used.
  const jal_dispatch_payload payload = {0, 1, word, 0, 0};
  jal_packet packet = {};
  jal_dispatch_payload_encode(&payload, &packet);
  queue->push_reserved(JAL_PACKET_DISPATCH, packet);
  EXPECT_EQ(queue->reserve(3000, &block, &word), JAL_ERROR_ARGUMENT_RING_FULL);
  EXPECT_EQ(queue->wait(soon()).code(), JAL_ERROR_NO_KERNEL);
  ASSERT_TRUE(queue->recover().ok());
  EXPECT_EQ(queue->reserve(3000, &block, &word), JAL_OK);
  EXPECT_EQ(word >> 32, 0u);  // what was left before the ring's end is skipped
}

TEST_F(QueueTest, WaitPastTheDeadlineReturnsTimeoutAndTheWorkGoesOn) {
  const auto waiting = make();
  jal_packet packet = {};
  packet.wait_event = 7;
  packet.wait_value = 1;
  ASSERT_EQ(waiting->push(JAL_PACKET_EVENT_WAIT, packet), JAL_OK);
  EXPECT_EQ(waiting->wait(now_ns() + 5'000'000).code(), JAL_ERROR_TIMEOUT);
  EXPECT_THAT(last_error_message(), HasSubstr("0 of 1 packets"));
  const auto other = make();
  jal_packet signal = {};
  signal.signal_event = 7;
  signal.signal_value = 1;
  ASSERT_EQ(other->push(JAL_PACKET_EVENT_SIGNAL, signal), JAL_OK);
  EXPECT_TRUE(waiting->wait(soon()).ok());
}

std::uint64_t time_of(Queue& queue, Session& session) { return session.region().queues[queue.index()].time_ps; }

jal_packet idle(std::uint64_t ns) {
  const jal_idle_payload payload = {0, ns, {}};
  jal_packet packet = {};
  jal_idle_payload_encode(&payload, &packet);
  return packet;
}

TEST_F(QueueTest, WorkEnqueuedAfterAWaitStartsAfterItOnAnyQueue) {
  const auto first = make(), second = make();
  ASSERT_EQ(first->push(JAL_PACKET_IDLE, idle(5000)), JAL_OK);
  ASSERT_TRUE(first->wait(soon()).ok());
  const std::uint64_t seen = time_of(*first, *session_);
  EXPECT_GE(seen, 5'000'000u);
  ASSERT_EQ(second->push(JAL_PACKET_COUNT, count(1)), JAL_OK);
  ASSERT_TRUE(second->wait(soon()).ok());
  EXPECT_GT(time_of(*second, *session_), seen);
}

TEST_F(QueueTest, WorkOfAThreadThatDidNotWaitOverlaps) {
  const auto first = make(), second = make();
  ASSERT_EQ(first->push(JAL_PACKET_IDLE, idle(5000)), JAL_OK);
  ASSERT_TRUE(first->wait(soon()).ok());
  std::thread([&] {
    ASSERT_EQ(second->push(JAL_PACKET_COUNT, count(1)), JAL_OK);
    ASSERT_TRUE(second->wait(soon()).ok());
  }).join();
  EXPECT_LT(time_of(*second, *session_), time_of(*first, *session_));
}

TEST_F(QueueTest, ModelledTimeIsTheSameHoweverOftenTheHostLooks) {
  const auto run = [&](int looks) {
    const auto queue = make();
    std::thread([&] {
      for (int i = 0; i < 10; ++i) {
        ASSERT_EQ(queue->push(JAL_PACKET_IDLE, idle(100)), JAL_OK);
        ASSERT_EQ(queue->push(JAL_PACKET_COUNT, count(1)), JAL_OK);
        for (int n = 0; n < looks; ++n) (void)session_->step();
        ASSERT_TRUE(queue->wait(soon()).ok());
      }
    }).join();
    return time_of(*queue, *session_);
  };
  const std::uint64_t once = run(0);
  EXPECT_EQ(run(5), once);
  EXPECT_EQ(run(50), once);
}

TEST_F(QueueTest, ThreadsDriveTheirOwnQueuesAtOnce) {
  std::vector<std::unique_ptr<Queue>> queues;
  for (int t = 0; t < 4; ++t) queues.push_back(make());
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (int round = 0; round < 50; ++round) {
        for (int i = 0; i < 20; ++i) ASSERT_EQ(queues[t]->push(JAL_PACKET_COUNT, count(1)), JAL_OK);
        ASSERT_TRUE(queues[t]->wait(soon()).ok()) << last_error_message();
      }
    });
  }
  for (auto& thread : threads) thread.join();
  for (const auto& queue : queues) EXPECT_EQ(queue->completed(), 1000u);
}

}  // namespace
}  // namespace jal::drv
