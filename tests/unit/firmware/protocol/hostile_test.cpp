// A hostile client: random words everywhere it can write. Nothing crashes, nothing runs for ever, the neighbour notices
// nothing.
#include <random>

#include "tests/unit/firmware/protocol/firmware_fixture.hpp"

namespace jal::fw::test {
namespace {

class Hostile : public testing::TestWithParam<std::uint64_t> {};

TEST_P(Hostile, RandomPacketsAndMailboxWords) {
  std::mt19937_64 draw(GetParam());
  Firmware fw;
  fw.control->boot();
  Client victim(fw, 0), attacker(fw, 1);
  ASSERT_EQ(victim.attach(), JAL_OK);
  ASSERT_EQ(victim.create_queue(0), JAL_OK);
  const std::uint64_t theirs = victim.alloc(0b1111, 4096);
  ASSERT_EQ(attacker.attach(), JAL_OK);
  for (std::uint32_t q = 0; q < 4; ++q) ASSERT_EQ(attacker.create_queue(q), JAL_OK);
  const std::uint64_t mine = attacker.alloc(0b1111, 4096);
  std::vector<std::uint8_t> memory(8192);
  const std::string file = module_file();
  ASSERT_EQ(attacker.ask(JAL_MAILBOX_MODULE_LOAD, {host(file.data()), file.size()}).status, JAL_OK);

  // Values that mean something are more dangerous than noise. Addresses of host memory are honest: a client may name
  // its own.
  const std::uint64_t likely[] = {0,
                                  1,
                                  15,
                                  16,
                                  64,
                                  4095,
                                  4096,
                                  65536,
                                  mine,
                                  theirs,
                                  host(memory.data()),
                                  ~0ull,
                                  1ull << 32,
                                  1ull << 63 >> 1,
                                  0xffffffffu};
  const auto word = [&]() -> std::uint64_t {
    const std::uint64_t value =
        draw() % 4 == 0 ? draw() & ~JAL_ADDRESS_HOST_VA_BIT : likely[draw() % std::size(likely)];
    return draw() % 8 == 0 ? value + draw() % 64 : value;
  };
  for (int round = 0; round < 4000; ++round) {
    const auto queue = static_cast<std::uint32_t>(draw() % 4);
    jal_packet p{};
    p.header = static_cast<std::uint32_t>(draw() % 10 == 0 ? draw() : draw() % 13 | draw() % 4 << 8);
    p.wait_event = static_cast<std::uint32_t>(draw() % 8 == 0 ? word() : draw() % 3);
    p.wait_value = draw() % 2;
    p.signal_event = static_cast<std::uint32_t>(draw() % 8 == 0 ? word() : draw() % 3);
    p.signal_value = draw() % 16 == 0 ? word() : static_cast<std::uint64_t>(round);
    p.p0 = static_cast<std::uint32_t>(word());
    for (std::uint64_t& w : p.p) w = word();
    attacker.put(p, queue);
    if (draw() % 4 == 0) {  // everything the client may write in the control words
      attacker.control(queue).published = word();
      attacker.control(queue).argument_head = word();
    }
    if (draw() % 8 == 0) {
      // What the device alone writes: scribbling there must not steer it.
      auto* head = attacker.bytes() + offsetof(jal_client_region, queues);
      head[draw() % (sizeof(jal_queue_control) * JAL_QUEUES_PER_CLIENT + sizeof(jal_event_mirror) * 16)] =
          static_cast<std::uint8_t>(draw());
    }
    if (draw() % 4 == 0) {
      jal_mailbox_half& request = attacker.region().request;
      std::uint32_t opcode = static_cast<std::uint32_t>(draw() % 14);
      // Module images are host memory: their contents are fuzzed elsewhere, their addresses stay honest.
      if (opcode == JAL_MAILBOX_MODULE_LOAD) opcode = JAL_MAILBOX_ECHO;
      request.opcode = opcode;
      for (std::uint64_t& w : request.word) w = word();
      if (draw() % 2 == 0) request.word[0] = draw() % 4;
      ++request.sequence;
    }
    for (int i = 0; i < 8; ++i) (void)fw.control->step();
    if (round % 64 == 0) {
      const auto q = static_cast<std::uint64_t>(draw() % 4);
      (void)attacker.ask(JAL_MAILBOX_QUEUE_RECOVER, {q});
      (void)attacker.ask(JAL_MAILBOX_EVENT_RESET, {draw() % 3});
    }
  }
  // No copy that was let through touches a byte that is not the attacker's.
  const std::uint64_t offset = JAL_ADDRESS_OFFSET(theirs);
  for (const hal::DmaRequest& request : fw.board.copies) {
    for (const std::uint64_t address : {request.dst, request.src}) {
      if (JAL_ADDRESS_SPACE(address) != JAL_SPACE_HBM || (request.fill && address == request.src)) continue;
      const std::uint64_t at = JAL_ADDRESS_OFFSET(address);
      EXPECT_TRUE(at + request.bytes <= offset || at >= offset + JAL_PAGE_BYTES)
          << std::hex << address << " + " << request.bytes;
    }
  }
  // The neighbour's work goes on as if nothing had been.
  victim.put(packet(JAL_PACKET_TIMESTAMP, 1, 1));
  for (int i = 0; i < 64; ++i) (void)fw.control->step();
  EXPECT_EQ(victim.event(1).value, 1u);
  EXPECT_EQ(victim.control().state, JAL_QUEUE_STATE_RUNNING);
  EXPECT_EQ(victim.ask(JAL_MAILBOX_ECHO, {5}).word[0], 5u);
  const std::size_t before = fw.board.extents.size();
  fw.control->detach(1);
  EXPECT_LE(fw.board.extents.size(), before);
  ASSERT_EQ(fw.board.extents.size(), 1u) << "the victim's";
  EXPECT_EQ(fw.board.extents.begin()->second.client, 0u);
  fw.control->detach(0);
  EXPECT_TRUE(fw.board.extents.empty());
  EXPECT_EQ(fw.board.charged, 0u);
}

INSTANTIATE_TEST_SUITE_P(Seeds, Hostile, testing::Range<std::uint64_t>(1, 9));

}  // namespace
}  // namespace jal::fw::test
