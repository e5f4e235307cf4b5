// Queues and events: laps, credit, order, fairness, poison and recovery.
#include <gmock/gmock.h>

#include "tests/unit/firmware/control/fake_board.hpp"

namespace jal::fw {
namespace {

class Queues : public ::testing::Test {
 protected:
  Queues() {
    for (Client* each : {&client, &other}) {
      EXPECT_EQ(each->attach(), JAL_OK);
      for (std::uint32_t queue = 0; queue < 3; ++queue) EXPECT_EQ(each->create_queue(queue), JAL_OK);
    }
  }
  const jal_event_mirror& event(std::uint32_t index) { return client.region().events[index]; }
  const jal_queue_control& control(std::uint32_t queue) { return client.region().queues[queue]; }
  /// A packet of a type that is not legal.
  void publish_bad(std::uint32_t queue, jal_packet packet = {}) { client.publish(77, packet, queue); }

  Chip chip;
  Client client{chip, 0}, other{chip, 1};
};

TEST_F(Queues, TheLapBitAloneTellsNewFromOldOverManyLaps) {
  for (std::uint64_t n = 1; n <= 5 * Client::kDepth + 3; ++n) {
    client.publish(JAL_PACKET_EVENT_SIGNAL, signalling(1, n));
    ASSERT_TRUE(chip.settle());
    ASSERT_EQ(event(1).value, n);
    ASSERT_EQ(control(0).consumed, n);
    ASSERT_EQ(chip.control().step(), StepResult::idle) << "an old slot was taken for a new packet";
  }
}

TEST_F(Queues, AFullRingIsConsumedToItsLastSlotAndIndicesAreNotBelieved) {
  for (std::uint32_t n = 0; n < Client::kDepth; ++n) client.publish(JAL_PACKET_EVENT_SIGNAL, signalling(1, n + 1));
  client.region().queues[0].published = 0;  // only credit and telemetry: the lap bit says what is there
  ASSERT_TRUE(chip.settle());
  EXPECT_EQ(event(1).value, Client::kDepth);
  client.region().queues[0].published = ~0ull;
  EXPECT_EQ(chip.control().step(), StepResult::idle);
  ASSERT_EQ(client.ask(JAL_MAILBOX_ECHO, {}), JAL_OK);
  EXPECT_LE(chip.telemetry(JAL_TAG_PENDING), Client::kDepth) << "more than a ring can hold";
}

TEST_F(Queues, PacketsOfAQueueRunInOrderAndWaitsHoldOnlyTheirQueue) {
  client.publish(JAL_PACKET_EVENT_WAIT, waiting(1, 5), 0);
  client.publish(JAL_PACKET_EVENT_SIGNAL, signalling(2, 1), 0);
  client.publish(JAL_PACKET_EVENT_SIGNAL, signalling(3, 1), 1);
  ASSERT_TRUE(chip.settle());
  EXPECT_EQ(event(2).value, 0u);
  EXPECT_EQ(event(3).value, 1u);
  EXPECT_EQ(chip.telemetry(JAL_TAG_PENDING), 2u);
  EXPECT_GT(chip.telemetry(JAL_TAG_PENDING_DEADLINE_UNIX_NS), chip.board.unix_ns);
  client.publish(JAL_PACKET_EVENT_SIGNAL, signalling(1, 4), 1);
  ASSERT_TRUE(chip.settle());
  EXPECT_EQ(event(2).value, 0u) << "4 is not yet 5";
  client.publish(JAL_PACKET_EVENT_SIGNAL, signalling(1, 6), 2);
  ASSERT_TRUE(chip.settle());
  EXPECT_EQ(event(2).value, 1u);
  EXPECT_GE(event(2).start_ps, event(1).end_ps) << "what waits starts after what it waits for";
  EXPECT_EQ(chip.telemetry(JAL_TAG_PENDING), 0u);
  EXPECT_EQ(chip.telemetry(JAL_TAG_PENDING_DEADLINE_UNIX_NS), 0u);
}

TEST_F(Queues, EventsBelongToTheirClient) {
  other.publish(JAL_PACKET_EVENT_WAIT, waiting(1, 1));
  client.publish(JAL_PACKET_EVENT_SIGNAL, signalling(1, 1));
  ASSERT_TRUE(chip.settle());
  EXPECT_EQ(other.region().queues[0].completed, 0u);
  EXPECT_EQ(other.region().events[1].value, 0u);
}

TEST_F(Queues, ATimelineOnlyGrowsAndCannotBeSignalledPoisoned) {
  ASSERT_EQ(client.run(JAL_PACKET_EVENT_SIGNAL, signalling(1, 10)), JAL_OK);
  client.region().events[1].value = 3;  // the mirror is not the truth
  EXPECT_EQ(client.run(JAL_PACKET_EVENT_SIGNAL, signalling(1, 9)), JAL_ERROR_EVENT_BACKWARDS);
  EXPECT_EQ(client.region().events[1].value, JAL_EVENT_POISONED) << "the signal of a failing packet is poisoned";
  EXPECT_EQ(client.run(JAL_PACKET_EVENT_SIGNAL, signalling(2, 0)), JAL_ERROR_EVENT_BACKWARDS);
  EXPECT_EQ(client.run(JAL_PACKET_EVENT_SIGNAL, signalling(3, JAL_EVENT_POISONED)), JAL_ERROR_BAD_PACKET);
  EXPECT_EQ(client.region().events[3].status, JAL_ERROR_BAD_PACKET);
  EXPECT_EQ(client.run(JAL_PACKET_EVENT_SIGNAL, signalling(4, JAL_EVENT_POISONED - 1)), JAL_OK);
}

TEST_F(Queues, EventPacketsNeedTheirEvent) {
  EXPECT_EQ(client.run(JAL_PACKET_EVENT_SIGNAL), JAL_ERROR_BAD_PACKET);
  EXPECT_EQ(client.run(JAL_PACKET_TIMESTAMP), JAL_ERROR_BAD_PACKET);
  EXPECT_EQ(client.run(JAL_PACKET_EVENT_WAIT), JAL_ERROR_BAD_PACKET);
}

TEST_F(Queues, AFailurePoisonsItsSignalAndAllThatIsQueuedWithTheFirstCause) {
  publish_bad(0, signalling(1, 1));
  client.publish(JAL_PACKET_EVENT_SIGNAL, signalling(2, 1));
  client.publish(JAL_PACKET_EVENT_WAIT, waiting(9, 1));
  client.publish(JAL_PACKET_EVENT_SIGNAL, signalling(1, 2));
  client.publish(JAL_PACKET_EVENT_WAIT, waiting(2, 1, signalling(3, 1)), 1);
  client.publish(JAL_PACKET_EVENT_SIGNAL, signalling(4, 1), 2);
  ASSERT_TRUE(chip.settle());
  EXPECT_EQ(control(0).state, JAL_QUEUE_STATE_POISONED);
  EXPECT_EQ(control(0).status, JAL_ERROR_BAD_PACKET);
  EXPECT_EQ(control(0).record, 1u);
  EXPECT_EQ(control(0).completed, 4u) << "waits behind a failure are dropped, not waited for";
  EXPECT_EQ(event(1).status, JAL_ERROR_BAD_PACKET);
  EXPECT_EQ(event(1).record, 1u) << "a later drop does not hide the first failure";
  EXPECT_EQ(event(2).status, JAL_ERROR_UPSTREAM_FAILED);
  EXPECT_EQ(event(2).record, 1u);
  EXPECT_EQ(control(1).state, JAL_QUEUE_STATE_POISONED) << "poison crosses queues through events";
  EXPECT_EQ(control(1).status, JAL_ERROR_UPSTREAM_FAILED);
  EXPECT_EQ(event(3).record, 2u);
  EXPECT_EQ(control(2).state, JAL_QUEUE_STATE_RUNNING) << "and through nothing else";
  EXPECT_EQ(event(4).value, 1u);
  EXPECT_EQ(other.region().record_count, 0u);
  EXPECT_EQ(chip.telemetry(JAL_TAG_ERRORS), 2u);
}

TEST_F(Queues, RecoveryDropsTheRestBumpsTheEpochAndTheQueueWorksAgain) {
  publish_bad(0);
  ASSERT_TRUE(chip.settle());
  client.publish(JAL_PACKET_EVENT_SIGNAL, signalling(1, 1));
  client.publish(JAL_PACKET_EVENT_SIGNAL, signalling(2, 1));
  const std::uint32_t epoch = control(0).epoch;
  ASSERT_EQ(client.ask(JAL_MAILBOX_QUEUE_RECOVER, {0}), JAL_OK);
  EXPECT_EQ(client.result[0], 2u);
  EXPECT_EQ(client.result[1], epoch + 1);
  EXPECT_EQ(control(0).epoch, epoch + 1);
  EXPECT_EQ(control(0).state, JAL_QUEUE_STATE_RUNNING);
  EXPECT_EQ(control(0).status, JAL_OK);
  EXPECT_EQ(event(1).value, JAL_EVENT_POISONED);
  // A poisoned event stays so until it is reset, whoever signals it.
  EXPECT_EQ(client.run(JAL_PACKET_EVENT_SIGNAL, signalling(1, 5)), JAL_ERROR_UPSTREAM_FAILED);
  EXPECT_EQ(client.run(JAL_PACKET_EVENT_WAIT, waiting(1, 0)), JAL_ERROR_UPSTREAM_FAILED);
  ASSERT_EQ(client.ask(JAL_MAILBOX_EVENT_RESET, {1}), JAL_OK);
  EXPECT_EQ(client.run(JAL_PACKET_EVENT_SIGNAL, signalling(1, 5)), JAL_OK);
  EXPECT_EQ(event(1).value, 5u);
}

TEST_F(Queues, RecordsAreARingWithRunningNumbers) {
  for (std::uint32_t n = 1; n <= JAL_ERROR_RECORDS + 2; ++n) {
    ASSERT_EQ(client.run(77), JAL_ERROR_BAD_PACKET);
    ASSERT_EQ(client.record().id, n);
  }
  EXPECT_EQ(client.region().records[0].id, JAL_ERROR_RECORDS + 1);
  EXPECT_EQ(client.region().records[2].id, 3u);
}

TEST_F(Queues, DeviceTimeAddsUp) {
  const hal::FirmwareCosts& costs = chip.board.costs;
  ASSERT_EQ(client.run(JAL_PACKET_TIMESTAMP, signalling(1, 1)), JAL_OK);
  EXPECT_EQ(event(1).start_ps, 0u);
  EXPECT_EQ(event(1).end_ps, costs.packet_ps);
  EXPECT_EQ(control(0).time_ps, costs.packet_ps);
  client.publish(JAL_PACKET_TIMESTAMP, signalling(1, 2), 0, JAL_PACKET_FLAG_AFTER_HOST);
  ASSERT_TRUE(chip.settle());
  EXPECT_EQ(event(1).start_ps, costs.packet_ps + costs.host_latency_ps);
  client.publish(JAL_PACKET_TIMESTAMP, signalling(2, 1), 0, JAL_PACKET_FLAG_OVERLAP);
  ASSERT_TRUE(chip.settle());
  EXPECT_EQ(event(2).start_ps, event(1).start_ps) << "overlaps the packet before it";
  EXPECT_EQ(control(0).time_ps, event(1).end_ps);
}

TEST_F(Queues, AFloodOfShortPacketsStarvesNoOtherClient) {
  // The meters are read with every packet: refilled from there, the queue never runs dry.
  chip.board.on_meter = [&] {
    while (client.region().queues[0].published - control(0).consumed < Client::kDepth) client.publish(JAL_PACKET_IDLE);
  };
  client.publish(JAL_PACKET_IDLE);
  other.publish(JAL_PACKET_EVENT_SIGNAL, signalling(1, 1));
  (void)chip.control().step();
  EXPECT_EQ(other.region().events[1].value, 0u) << "the flood did not fill a step, so this test shows nothing";
  EXPECT_GT(control(0).completed, Client::kDepth) << "one step ends although the queue does not";
  (void)chip.control().step();
  EXPECT_EQ(other.region().events[1].value, 1u);
  EXPECT_EQ(other.ask(JAL_MAILBOX_ECHO, {}), JAL_OK);
  chip.board.on_meter = nullptr;
}

TEST_F(Queues, LongWorkGoesRoundTheClients) {
  const std::uint64_t mine = client.allocate(1, 1), theirs = other.allocate(1, 1);
  for (int n = 0; n < 3; ++n) {
    client.publish(JAL_PACKET_FILL, fill_packet({0, JAL_ADDRESS_HBM(0, mine), 64, 0, 0}));
    other.publish(JAL_PACKET_FILL, fill_packet({0, JAL_ADDRESS_HBM(0, theirs), 64, 0, 0}));
  }
  for (std::uint64_t step = 1; step <= 6; ++step) {
    (void)chip.control().step();
    EXPECT_EQ(chip.board.copies, step) << "one long piece of work a step";
    EXPECT_LE(control(0).completed > other.region().queues[0].completed
                  ? control(0).completed - other.region().queues[0].completed
                  : other.region().queues[0].completed - control(0).completed,
              1u);
  }
}

TEST_F(Queues, ALostDeviceWakesEveryWaiterOfEveryClient) {
  client.publish(JAL_PACKET_EVENT_WAIT, waiting(9, 1, signalling(1, 1)));
  other.publish(JAL_PACKET_EVENT_WAIT, waiting(9, 1, signalling(1, 1)), 2);
  ASSERT_TRUE(chip.settle());
  chip.control().set_lost(JAL_ERROR_INTERNAL);
  for (Client* each : {&client, &other}) {
    EXPECT_EQ(each->region().events[1].value, JAL_EVENT_POISONED);
    EXPECT_EQ(each->region().events[1].status, JAL_ERROR_DEVICE_LOST);
    EXPECT_EQ(each->region().lost_status, static_cast<std::uint32_t>(JAL_ERROR_INTERNAL));
    EXPECT_EQ(each->region().queues[2].state, JAL_QUEUE_STATE_POISONED);
  }
  EXPECT_EQ(chip.control().step(), StepResult::lost);
  EXPECT_EQ(chip.telemetry(JAL_TAG_STATE), JAL_DEVICE_STATE_LOST);
  chip.control().set_lost(JAL_ERROR_KERNEL_DEADLINE);
  EXPECT_EQ(client.region().lost_status, static_cast<std::uint32_t>(JAL_ERROR_INTERNAL)) << "the first cause stays";
}

}  // namespace
}  // namespace jal::fw
