// Every mailbox operation: what it answers, and what it refuses.
#include <gmock/gmock.h>

#include "tests/unit/firmware/control/fake_board.hpp"

namespace jal::fw {
namespace {

constexpr std::uint64_t kPage = JAL_PAGE_BYTES;

class Mailbox : public ::testing::Test {
 protected:
  Mailbox() {
    EXPECT_EQ(client.attach(), JAL_OK);
    EXPECT_EQ(other.attach(), JAL_OK);
  }
  Chip chip;
  Client client{chip, 0}, other{chip, 5};
};

TEST_F(Mailbox, EchoReturnsAllSevenWords) {
  ASSERT_EQ(client.ask(JAL_MAILBOX_ECHO, {1, 2, 3, 4, 5, 6, ~0ull}), JAL_OK);
  EXPECT_THAT(client.result, ::testing::ElementsAre(1, 2, 3, 4, 5, 6, ~0ull));
}

TEST_F(Mailbox, UnknownOperationsAreUnimplemented) {
  for (const std::uint32_t opcode : {0u, 12u, 255u, 0x80000001u, UINT32_MAX}) {
    EXPECT_EQ(client.ask(opcode, {1, 2, 3}), JAL_ERROR_UNIMPLEMENTED) << opcode;
    EXPECT_THAT(client.result, ::testing::Each(0u));
  }
}

TEST_F(Mailbox, AnyNewSequenceIsAnsweredOnceWithItsNumber) {
  jal_client_region& region = client.region();
  region.request.opcode = JAL_MAILBOX_ECHO;
  for (const std::uint32_t sequence : {UINT32_MAX, 0u, 7u}) {
    region.request.word[0] = sequence;
    region.request.sequence = sequence;
    EXPECT_EQ(chip.control().step(), StepResult::worked);
    EXPECT_EQ(region.response.sequence, sequence);
    EXPECT_EQ(region.response.word[0], sequence);
    EXPECT_EQ(chip.control().step(), StepResult::idle);
  }
}

TEST_F(Mailbox, WordsThatAnOperationDoesNotUseMustBeZero) {
  ASSERT_EQ(client.create_queue(0), JAL_OK);
  client.allocate(1, 1);
  const struct {
    std::uint32_t opcode, used;
    std::uint64_t first;
  } operations[] = {
      {JAL_MAILBOX_QUEUE_DESTROY, 1, 0},
      {JAL_MAILBOX_QUEUE_RECOVER, 1, 0},
      {JAL_MAILBOX_PAGES_FREE, 1, client.reservation},
      {JAL_MAILBOX_PAGES_QUERY, 1, 0},
      {JAL_MAILBOX_MODULE_UNLOAD, 1, 1},
      {JAL_MAILBOX_CLOCK_QUERY, 0, 0},
      {JAL_MAILBOX_EVENT_RESET, 1, 1},
  };
  for (const auto& [opcode, used, first] : operations) {
    EXPECT_EQ(client.ask(opcode, {first, 0, 0, 0, 0, 0, 1}), JAL_ERROR_RESERVED_NOT_ZERO) << opcode;
    if (used == 0) {
      EXPECT_EQ(client.ask(opcode, {1}), JAL_ERROR_RESERVED_NOT_ZERO) << opcode;
    } else {
      EXPECT_EQ(client.ask(opcode, {first, 1}), JAL_ERROR_RESERVED_NOT_ZERO) << opcode;
    }
  }
  EXPECT_EQ(client.ask(JAL_MAILBOX_PAGES_ALLOC, {1, 1, 64, 0, 1}), JAL_ERROR_RESERVED_NOT_ZERO);
  EXPECT_EQ(client.ask(JAL_MAILBOX_PAGES_ALLOC, {1, 1, 64, 1}), JAL_ERROR_RESERVED_NOT_ZERO) << "no flag is defined";
  EXPECT_EQ(client.ask(JAL_MAILBOX_MODULE_LOAD, {1, 1, 1}), JAL_ERROR_RESERVED_NOT_ZERO);
  EXPECT_EQ(client.ask(JAL_MAILBOX_QUEUE_CREATE, {1, Client::kRings, 4, Client::kArguments, 4096, 1}),
            JAL_ERROR_RESERVED_NOT_ZERO);
  EXPECT_EQ(chip.board.extents.size(), 1u) << "a refused request changed something";
}

TEST_F(Mailbox, QueueCreateZeroesItsRingAndControl) {
  client.slot_of(2, 0).header = JAL_PACKET_LAP_BIT | JAL_PACKET_TIMESTAMP;
  client.region().queues[2].published = 99;
  ASSERT_EQ(client.create_queue(2), JAL_OK);
  EXPECT_EQ(client.slot_of(2, 0).header, 0u);
  EXPECT_EQ(client.region().queues[2].published, 0u);
  EXPECT_EQ(client.region().queues[2].state, JAL_QUEUE_STATE_RUNNING);
  EXPECT_EQ(client.region().queues[2].epoch, 1u);
  EXPECT_EQ(chip.telemetry(JAL_TAG_QUEUES), 1u);
  EXPECT_EQ(client.create_queue(2), JAL_ERROR_BUSY);
}

TEST_F(Mailbox, QueueCreateRefusesHostileArguments) {
  const std::uint64_t head = sizeof(jal_client_region), ring = Client::kRings, block = Client::kArguments;
  const struct {
    const char* why;
    std::int32_t status;
    std::uint64_t word[5];
  } cases[] = {
      {"index", JAL_ERROR_QUEUE_LIMIT, {JAL_QUEUES_PER_CLIENT, ring, 4, block, 4096}},
      {"index beyond 32 bits", JAL_ERROR_QUEUE_LIMIT, {1ull << 32, ring, 4, block, 4096}},
      {"depth below the least", JAL_ERROR_INVALID_ARGUMENT, {0, ring, 3, block, 4096}},
      {"depth above the most", JAL_ERROR_INVALID_ARGUMENT, {0, ring, 13, block, 4096}},
      {"depth beyond a shift", JAL_ERROR_INVALID_ARGUMENT, {0, ring, 64, block, 4096}},
      {"arguments too few", JAL_ERROR_INVALID_ARGUMENT, {0, ring, 4, block, 2048}},
      {"arguments not a power of two", JAL_ERROR_INVALID_ARGUMENT, {0, ring, 4, block, 4096 + 64}},
      {"no arguments", JAL_ERROR_INVALID_ARGUMENT, {0, ring, 4, block, 0}},
      {"ring unaligned", JAL_ERROR_UNALIGNED_ADDRESS, {0, ring + 4, 4, block, 4096}},
      {"arguments unaligned", JAL_ERROR_UNALIGNED_ADDRESS, {0, ring, 4, block + 32, 4096}},
      {"ring inside the head", JAL_ERROR_BAD_ADDRESS, {0, 0, 4, block, 4096}},
      {"ring at the head's end", JAL_ERROR_BAD_ADDRESS, {0, (head - 1) / 64 * 64, 4, block, 4096}},
      {"ring past the region", JAL_ERROR_BAD_ADDRESS, {0, Client::kBytes - 512, 4, block, 4096}},
      {"ring far away", JAL_ERROR_BAD_ADDRESS, {0, ~63ull, 4, block, 4096}},
      {"arguments inside the head", JAL_ERROR_BAD_ADDRESS, {0, ring, 4, 64, 4096}},
      {"arguments past the region", JAL_ERROR_BAD_ADDRESS, {0, ring, 4, block, 1ull << 40}},
      {"arguments far away", JAL_ERROR_BAD_ADDRESS, {0, ring, 4, ~63ull, 4096}},
  };
  for (const auto& c : cases) {
    EXPECT_EQ(client.ask(JAL_MAILBOX_QUEUE_CREATE, {c.word[0], c.word[1], c.word[2], c.word[3], c.word[4]}), c.status)
        << c.why;
  }
  EXPECT_EQ(chip.telemetry(JAL_TAG_QUEUES), 0u);
  EXPECT_EQ(client.ask(JAL_MAILBOX_QUEUE_CREATE, {0, ring, 12, Client::kRings, 4096}), JAL_ERROR_BAD_ADDRESS)
      << "a ring of the greatest depth does not fit this region";
}

TEST_F(Mailbox, QueueDestroyWantsAnIdleQueueThatExists) {
  EXPECT_EQ(client.ask(JAL_MAILBOX_QUEUE_DESTROY, {0}), JAL_ERROR_INVALID_HANDLE);
  EXPECT_EQ(client.ask(JAL_MAILBOX_QUEUE_DESTROY, {JAL_QUEUES_PER_CLIENT}), JAL_ERROR_INVALID_HANDLE);
  EXPECT_EQ(client.ask(JAL_MAILBOX_QUEUE_DESTROY, {~0ull}), JAL_ERROR_INVALID_HANDLE);
  ASSERT_EQ(client.create_queue(), JAL_OK);
  client.publish(JAL_PACKET_EVENT_WAIT, waiting(1, 1));
  EXPECT_EQ(client.ask(JAL_MAILBOX_QUEUE_DESTROY, {0}), JAL_ERROR_QUEUE_BUSY);
  ASSERT_EQ(client.ask(JAL_MAILBOX_QUEUE_RECOVER, {0}), JAL_OK);
  EXPECT_EQ(client.ask(JAL_MAILBOX_QUEUE_DESTROY, {0}), JAL_OK);
  EXPECT_EQ(client.region().queues[0].state, JAL_QUEUE_STATE_FREE);
  EXPECT_EQ(client.ask(JAL_MAILBOX_QUEUE_DESTROY, {0}), JAL_ERROR_INVALID_HANDLE);
  ASSERT_EQ(client.create_queue(), JAL_OK);
  EXPECT_EQ(client.region().queues[0].epoch, 3u) << "a new queue in an old slot is a new epoch";
}

TEST_F(Mailbox, QueueRecoverWantsAQueue) {
  EXPECT_EQ(client.ask(JAL_MAILBOX_QUEUE_RECOVER, {0}), JAL_ERROR_INVALID_HANDLE);
  EXPECT_EQ(client.ask(JAL_MAILBOX_QUEUE_RECOVER, {1ull << 40}), JAL_ERROR_INVALID_HANDLE);
}

TEST_F(Mailbox, PagesAllocGrantsOneOffsetInEverySliceOfTheMask) {
  ASSERT_EQ(client.ask(JAL_MAILBOX_PAGES_ALLOC, {0b1011, 3, 2 * kPage + 64, 0}), JAL_OK);
  EXPECT_EQ(client.result[0], 0u);
  ASSERT_EQ(chip.board.extents.size(), 1u);
  const hal::MapRequest& extent = chip.board.extents.begin()->second;
  EXPECT_EQ(extent.slice_mask, 0b1011u);
  EXPECT_EQ(extent.pages, 3u);
  EXPECT_EQ(extent.bytes_per_slice, 2 * kPage + 64);
  EXPECT_EQ(extent.client, 0u);
  EXPECT_EQ(chip.telemetry(JAL_TAG_HBM_USED), 9 * kPage);
}

TEST_F(Mailbox, PagesAllocRefusesHostileArguments) {
  const struct {
    const char* why;
    std::int32_t status;
    std::uint64_t mask, pages, bytes;
  } cases[] = {
      {"no slice", JAL_ERROR_BAD_SLICE_MASK, 0, 1, 64},
      {"slices the chip does not have", JAL_ERROR_BAD_SLICE_MASK, 0x10, 1, 64},
      {"slices far away", JAL_ERROR_BAD_SLICE_MASK, 1ull << 63, 1, 64},
      {"no pages", JAL_ERROR_INVALID_ARGUMENT, 1, 0, 0},
      {"no bytes", JAL_ERROR_INVALID_ARGUMENT, 1, 1, 0},
      {"bytes beyond the pages", JAL_ERROR_INVALID_ARGUMENT, 1, 1, kPage + 64},
      {"bytes that leave a page unused", JAL_ERROR_INVALID_ARGUMENT, 1, 2, kPage},
      {"odd bytes", JAL_ERROR_INVALID_ARGUMENT, 1, 1, 100},
      {"pages beyond 32 bits", JAL_ERROR_INVALID_ARGUMENT, 1, 1ull << 32, 1ull << 48},
      {"pages that wrap", JAL_ERROR_INVALID_ARGUMENT, 1, 1ull << 48, 64},
      {"everything", JAL_ERROR_INVALID_ARGUMENT, 1, ~0ull, ~63ull},
  };
  for (const auto& c : cases) {
    EXPECT_EQ(client.ask(JAL_MAILBOX_PAGES_ALLOC, {c.mask, c.pages, c.bytes, 0}), c.status) << c.why;
  }
  EXPECT_TRUE(chip.board.extents.empty());
}

TEST_F(Mailbox, PagesAllocNamesTheTightestSlice) {
  client.allocate(0b0100, 20);
  client.allocate(0b0001, 5);
  ASSERT_EQ(client.ask(JAL_MAILBOX_PAGES_ALLOC, {0b1111, 13, 13 * kPage, 0}), JAL_ERROR_OUT_OF_DEVICE_MEMORY);
  EXPECT_THAT(client.result, ::testing::ElementsAre(2, 12, 12, hal::Board::kPages, 0, 0, 0));
  EXPECT_EQ(client.ask(JAL_MAILBOX_PAGES_ALLOC, {0b1111, 12, 12 * kPage, 0}), JAL_OK);
  EXPECT_EQ(client.ask(JAL_MAILBOX_PAGES_ALLOC, {1, UINT32_MAX, std::uint64_t{UINT32_MAX} * kPage, 0}),
            JAL_ERROR_OUT_OF_DEVICE_MEMORY);
}

TEST_F(Mailbox, PagesAllocBeyondTheHostBudgetGrantsNothing) {
  chip.board.budget_limit = 3 * kPage;
  ASSERT_EQ(client.ask(JAL_MAILBOX_PAGES_ALLOC, {0b11, 1, kPage, 0}), JAL_OK);
  EXPECT_EQ(client.ask(JAL_MAILBOX_PAGES_ALLOC, {0b11, 1, kPage, 0}), JAL_ERROR_HOST_BUDGET);
  EXPECT_EQ(client.result[0], 3 * kPage);
  EXPECT_EQ(client.result[1], 2 * kPage);
  ASSERT_EQ(client.ask(JAL_MAILBOX_PAGES_QUERY, {0}), JAL_OK);
  EXPECT_THAT(client.result, ::testing::ElementsAre(hal::Board::kPages - 1, 1, hal::Board::kPages - 1,
                                                    hal::Board::kPages, 3 * kPage, 2 * kPage, 0));
}

TEST_F(Mailbox, PagesFreeWantsItsOwnLiveReservation) {
  client.allocate(1, 2);
  const std::uint64_t id = client.reservation;
  EXPECT_EQ(other.ask(JAL_MAILBOX_PAGES_FREE, {id}), JAL_ERROR_STALE_HANDLE) << "another client's";
  for (const std::uint64_t wrong :
       {std::uint64_t{0}, id + 1, id + (std::uint64_t{1} << 32), id | std::uint64_t{1} << 63, ~std::uint64_t{0}}) {
    EXPECT_EQ(client.ask(JAL_MAILBOX_PAGES_FREE, {wrong}), JAL_ERROR_STALE_HANDLE) << wrong;
  }
  EXPECT_EQ(client.ask(JAL_MAILBOX_PAGES_FREE, {id}), JAL_OK);
  EXPECT_EQ(client.ask(JAL_MAILBOX_PAGES_FREE, {id}), JAL_ERROR_STALE_HANDLE) << "a double free";
  client.allocate(1, 2);
  EXPECT_NE(client.reservation, id) << "a freed id names nothing, even in a slot that is used again";
  EXPECT_EQ(client.ask(JAL_MAILBOX_PAGES_FREE, {id}), JAL_ERROR_STALE_HANDLE);
}

TEST_F(Mailbox, PagesFreeAndModuleUnloadWaitForPendingWork) {
  ASSERT_EQ(client.create_queue(), JAL_OK);
  client.allocate(1, 1);
  client.publish(JAL_PACKET_EVENT_WAIT, waiting(7, 1));
  EXPECT_EQ(client.ask(JAL_MAILBOX_PAGES_FREE, {client.reservation}), JAL_ERROR_MEMORY_BUSY);
  EXPECT_EQ(client.ask(JAL_MAILBOX_MODULE_UNLOAD, {1}), JAL_ERROR_QUEUE_BUSY);
  ASSERT_EQ(client.ask(JAL_MAILBOX_QUEUE_RECOVER, {0}), JAL_OK);
  EXPECT_EQ(client.ask(JAL_MAILBOX_PAGES_FREE, {client.reservation}), JAL_OK);
}

TEST_F(Mailbox, PagesQueryCountsPerClient) {
  client.allocate(0b11, 4);
  other.allocate(0b01, 8);
  ASSERT_EQ(client.ask(JAL_MAILBOX_PAGES_QUERY, {0}), JAL_OK);
  EXPECT_EQ(client.result[0], hal::Board::kPages - 12);
  EXPECT_EQ(client.result[1], 4u);
  EXPECT_EQ(client.result[2], hal::Board::kPages - 12);
  ASSERT_EQ(other.ask(JAL_MAILBOX_PAGES_QUERY, {0}), JAL_OK);
  EXPECT_EQ(other.result[1], 8u);
  EXPECT_EQ(client.ask(JAL_MAILBOX_PAGES_QUERY, {hal::Board::kSlices}), JAL_ERROR_BAD_SLICE_MASK);
  EXPECT_EQ(client.ask(JAL_MAILBOX_PAGES_QUERY, {1ull << 32}), JAL_ERROR_BAD_SLICE_MASK);
}

TEST_F(Mailbox, ClockQueryFollowsDeviceTime) {
  ASSERT_EQ(client.ask(JAL_MAILBOX_CLOCK_QUERY, {}), JAL_OK);
  EXPECT_EQ(client.result[0], 0u);
  ASSERT_EQ(client.create_queue(), JAL_OK);
  jal_idle_payload idle = {};
  idle.idle_ns = 77;
  ASSERT_EQ(client.run(JAL_PACKET_IDLE, packet_of(idle, jal_idle_payload_encode)), JAL_OK);
  ASSERT_EQ(other.ask(JAL_MAILBOX_CLOCK_QUERY, {}), JAL_OK);
  EXPECT_EQ(other.result[0], 77000 + chip.board.costs.packet_ps);
}

TEST_F(Mailbox, EventResetStartsTheTimelineAgain) {
  for (const std::uint64_t wrong :
       {std::uint64_t{JAL_EVENT_NONE}, std::uint64_t{JAL_EVENT_COUNT}, (std::uint64_t{1} << 32) + 1}) {
    EXPECT_EQ(client.ask(JAL_MAILBOX_EVENT_RESET, {wrong}), JAL_ERROR_INVALID_HANDLE) << wrong;
  }
  ASSERT_EQ(client.create_queue(), JAL_OK);
  ASSERT_EQ(client.run(JAL_PACKET_EVENT_SIGNAL, signalling(9, 50)), JAL_OK);
  EXPECT_EQ(client.region().events[9].value, 50u);
  ASSERT_EQ(client.ask(JAL_MAILBOX_EVENT_RESET, {9}), JAL_OK);
  const jal_event_mirror zero = {};
  EXPECT_EQ(std::memcmp(&client.region().events[9], &zero, sizeof zero), 0);
  EXPECT_EQ(client.run(JAL_PACKET_EVENT_SIGNAL, signalling(9, 1)), JAL_OK);
}

TEST_F(Mailbox, LostDeviceAnswersEveryOperationSo) {
  chip.control().set_lost(JAL_ERROR_INTERNAL);
  for (std::uint32_t opcode = 0; opcode < 13; ++opcode) {
    EXPECT_EQ(client.ask(opcode, {1, 1, 64}), JAL_ERROR_DEVICE_LOST) << opcode;
  }
  EXPECT_EQ(client.region().lost_status, static_cast<std::uint32_t>(JAL_ERROR_INTERNAL));
}

TEST_F(Mailbox, DetachReturnsPagesModulesAndQueues) {
  const std::vector<std::uint8_t> file = make_module({make_kernel("k")});
  ASSERT_EQ(client.create_queue(), JAL_OK);
  client.allocate(0b1111, 3);
  client.allocate(0b0010, 2);
  other.allocate(0b0100, 1);
  ASSERT_EQ(client.ask(JAL_MAILBOX_MODULE_LOAD, {host_address(file.data()), file.size()}), JAL_OK);
  client.publish(JAL_PACKET_EVENT_WAIT, waiting(1, 1));
  client.detach();
  EXPECT_TRUE(chip.board.codes.empty());
  EXPECT_EQ(chip.board.extents.size(), 1u);
  EXPECT_EQ(chip.telemetry(JAL_TAG_HBM_USED), kPage);
  EXPECT_EQ(chip.telemetry(JAL_TAG_QUEUES), 0u);
  EXPECT_EQ(chip.control().step(), StepResult::idle);
  chip.control().detach(0);
  chip.control().detach(UINT32_MAX);
  EXPECT_EQ(chip.telemetry(JAL_TAG_CLIENTS), 1u);
}

}  // namespace
}  // namespace jal::fw
