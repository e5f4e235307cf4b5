// The command processor on the fake board: every packet, every status, events, poisoning, recovery, laps, times and
// accounts.
#include <numeric>

#include "tests/unit/firmware/protocol/firmware_fixture.hpp"

namespace jal::fw::test {
namespace {

class Command : public testing::Test {
 protected:
  Command() : client(boot(), 0) {
    EXPECT_EQ(client.attach(), JAL_OK);
    EXPECT_EQ(client.create_queue(0), JAL_OK);
    address = client.alloc(0b1111, 1024);
  }
  Firmware& boot() {
    fw.control->boot();
    return fw;
  }
  /// Publishes a packet and runs; the status it left: OK, or the queue's, after recovery.
  std::int32_t status_of(jal_packet packet) {
    packet.signal_event = 9;
    packet.signal_value = client.event(9).value + 1;
    const std::uint64_t completed = client.control().completed;
    client.put(packet);
    (void)fw.run();
    EXPECT_EQ(client.control().completed, completed + 1);
    if (client.control().state == JAL_QUEUE_STATE_RUNNING) {
      EXPECT_EQ(client.event(9).value, packet.signal_value);
      return JAL_OK;
    }
    const std::int32_t status = client.control().status;
    EXPECT_EQ(client.event(9).value, JAL_EVENT_POISONED);
    EXPECT_EQ(client.event(9).status, status);
    EXPECT_EQ(client.event(9).record, client.control().record);
    EXPECT_EQ(client.last_record().status, status);
    EXPECT_NE(client.last_record().text[0], '\0') << "status " << status << " has no words";
    EXPECT_EQ(client.ask(JAL_MAILBOX_QUEUE_RECOVER, {0}).status, JAL_OK);
    EXPECT_EQ(client.ask(JAL_MAILBOX_EVENT_RESET, {9}).status, JAL_OK);
    return status;
  }
  std::uint64_t load_module() {
    file = module_file();
    const Client::Answer answer = client.ask(JAL_MAILBOX_MODULE_LOAD, {host(file.data()), file.size()});
    EXPECT_EQ(answer.status, JAL_OK);
    scale = kernel_index(file, "scale");  // (Address, u32, f32): 16 bytes
    return answer.word[0];
  }
  jal_packet dispatch(std::uint64_t module, std::uint64_t kernel, std::uint64_t mask, std::uint64_t bytes,
                      std::uint64_t offset = 0) {
    jal_packet p = packet(JAL_PACKET_DISPATCH);
    const jal_dispatch_payload payload{static_cast<std::uint32_t>(module << 16 | kernel), mask, offset << 32 | bytes,
                                       77, 0};
    jal_dispatch_payload_encode(&payload, &p);
    return p;
  }

  Firmware fw;
  Client client;
  std::uint64_t address = 0;
  std::string file;
  std::uint32_t scale = 0;
};

TEST_F(Command, MalformedHeadersAreRefused) {
  jal_packet p = packet(JAL_PACKET_TIMESTAMP);
  p.header |= 0x00010000u;
  EXPECT_EQ(status_of(p), JAL_ERROR_BAD_PACKET);
  p = packet(JAL_PACKET_TIMESTAMP);
  p.header |= 0x4u << 8;
  EXPECT_EQ(status_of(p), JAL_ERROR_BAD_PACKET);
  for (const std::uint32_t type : {0u, 12u, 99u, 255u})
    EXPECT_EQ(status_of(packet(type)), JAL_ERROR_BAD_PACKET) << type;
  for (const std::uint32_t type : {JAL_PACKET_COLLECTIVE, JAL_PACKET_GRAPH_REPLAY})
    EXPECT_EQ(status_of(packet(type)), JAL_ERROR_UNIMPLEMENTED) << type;
  p = packet(JAL_PACKET_TIMESTAMP);
  p.wait_event = JAL_EVENT_COUNT;
  EXPECT_EQ(status_of(p), JAL_ERROR_BAD_PACKET);
  EXPECT_EQ(status_of(packet(JAL_PACKET_EVENT_WAIT)), JAL_ERROR_BAD_PACKET) << "waits for no event";
  // Reserved fields of every payload.
  for (const std::uint32_t type :
       {JAL_PACKET_TIMESTAMP, JAL_PACKET_EVENT_SIGNAL, JAL_PACKET_PHASE, JAL_PACKET_COUNT, JAL_PACKET_IDLE}) {
    p = packet(type);
    p.p[3] = 1;
    EXPECT_EQ(status_of(p), JAL_ERROR_BAD_PACKET) << type;
  }
}

TEST_F(Command, EventPacketWithoutAnEventIsRefused) {
  client.put(packet(JAL_PACKET_TIMESTAMP));
  (void)fw.run();
  EXPECT_EQ(client.control().status, JAL_ERROR_BAD_PACKET);
}

TEST_F(Command, CopiesAndFillsReachTheEngineAsAsked) {
  std::vector<std::uint8_t> memory(4096);
  EXPECT_EQ(status_of(copy(address, host(memory.data()), 256)), JAL_OK);
  EXPECT_EQ(status_of(copy(host(memory.data()), address, 64, 0b1010)), JAL_OK);
  EXPECT_EQ(status_of(copy(JAL_ADDRESS_HBM(2, JAL_ADDRESS_OFFSET(address)), address, 1024)), JAL_OK);
  EXPECT_EQ(status_of(fill(address, 512, 0b1111)), JAL_OK);
  ASSERT_EQ(fw.board.copies.size(), 4u);
  EXPECT_EQ(fw.board.copies[1].slice_mask, 0b1010u);
  EXPECT_EQ(fw.board.copies[2].dst, JAL_ADDRESS_HBM(2, JAL_ADDRESS_OFFSET(address)));
  EXPECT_TRUE(fw.board.copies[3].fill);
  EXPECT_EQ(fw.board.copies[3].pattern, 7u);
  EXPECT_EQ(fw.tag(JAL_TAG_BYTES_HOST), 256u + 2 * 64u) << "what stays in the chip is not host traffic";
}

TEST_F(Command, CopiesOutsideTheClientsMemoryAreRefused) {
  std::vector<std::uint8_t> memory(4096);
  const std::uint64_t here = host(memory.data());
  EXPECT_EQ(status_of(copy(address, here, 1025)), JAL_ERROR_BAD_ADDRESS) << "one byte behind";
  EXPECT_EQ(status_of(copy(address + 1024, here, 64)), JAL_ERROR_BAD_ADDRESS);
  EXPECT_EQ(client.last_record().near_base, address);
  EXPECT_EQ(client.last_record().near_bytes, 1024u);
  EXPECT_EQ(status_of(copy(address - 1, here, 64)), JAL_ERROR_BAD_ADDRESS);
  EXPECT_EQ(status_of(copy(JAL_ADDRESS_HBM(4, 0), here, 64)), JAL_ERROR_BAD_ADDRESS) << "no such slice";
  EXPECT_EQ(status_of(copy(JAL_ADDRESS_HBM(255, 0xffffffffu), here, 64)), JAL_ERROR_BAD_ADDRESS);
  EXPECT_EQ(status_of(copy(address, 0x1000, 64)), JAL_ERROR_BAD_ADDRESS) << "neither HBM nor host memory";
  EXPECT_EQ(status_of(copy(address, ~0ull, 64)), JAL_ERROR_BAD_ADDRESS) << "wraps around";
  EXPECT_EQ(status_of(copy(address, here, 0)), JAL_ERROR_BAD_PACKET);
  EXPECT_EQ(status_of(copy(address, here, 1ull << 33)), JAL_ERROR_BAD_PACKET);
  EXPECT_EQ(status_of(copy(address, here, 64, 0x10)), JAL_ERROR_BAD_SLICE_MASK);
  EXPECT_EQ(status_of(copy(address | 1ull << 32, here, 64, 1)), JAL_ERROR_BAD_SLICE_MASK);
  EXPECT_EQ(status_of(copy(address, address, 64, 3)), JAL_ERROR_BAD_PACKET);
  EXPECT_EQ(status_of(fill(address + 2, 64)), JAL_ERROR_UNALIGNED_ADDRESS);
  EXPECT_EQ(status_of(fill(address, 63)), JAL_ERROR_UNALIGNED_ADDRESS);
  EXPECT_EQ(status_of(fill(here, 64)), JAL_ERROR_BAD_ADDRESS);
  EXPECT_TRUE(fw.board.copies.empty());

  Client other(fw, 1);
  ASSERT_EQ(other.attach(), JAL_OK);
  const std::uint64_t theirs = other.alloc(1, 64);
  EXPECT_EQ(status_of(copy(theirs, here, 64)), JAL_ERROR_FOREIGN_ADDRESS);
  EXPECT_EQ(status_of(copy(here, theirs, 64)), JAL_ERROR_FOREIGN_ADDRESS);
  fw.board.copy_status = JAL_ERROR_BAD_ADDRESS;
  client.put(copy(address, here, 64));
  (void)fw.run();
  EXPECT_EQ(client.control().status, JAL_ERROR_BAD_ADDRESS) << "what the board finds is passed on";
}

TEST_F(Command, DispatchesAreCheckedAndPassedOn) {
  const std::uint64_t module = load_module();
  const std::uint8_t words[16] = {1, 2, 3};
  std::memcpy(client.bytes() + Client::argument_offset(0) + 128, words, sizeof words);
  fw.board.job_result.end_ps = 5000;
  fw.board.job_result.energy_fj[JAL_UNIT_MATRIX] = 3'000'000;
  fw.board.job_result.bytes_local = 640;
  fw.board.polls_left = 3;  // a board whose cores take time
  EXPECT_EQ(status_of(dispatch(module, scale, 0b101, 16, 128)), JAL_OK);
  ASSERT_EQ(fw.board.jobs.size(), 1u);
  EXPECT_EQ(fw.board.jobs[0].core_mask, 0b101u);
  EXPECT_EQ(fw.board.jobs[0].tag, 77u);
  EXPECT_EQ(fw.board.job_arguments[0], std::vector<std::uint8_t>(words, words + 16));
  EXPECT_EQ(fw.tag(JAL_TAG_DISPATCHES), 1u);
  EXPECT_EQ(fw.tag(JAL_TAG_BYTES_LOCAL), 640u);
  EXPECT_GE(fw.tag(JAL_TAG_UNIT_ENERGY_NJ, JAL_UNIT_MATRIX), 3u);

  EXPECT_EQ(status_of(dispatch(module, 999, 1, 16)), JAL_ERROR_NO_KERNEL);
  EXPECT_EQ(status_of(dispatch(module + 1, scale, 1, 16)), JAL_ERROR_NO_KERNEL);
  EXPECT_EQ(status_of(dispatch(module, scale, 0, 16)), JAL_ERROR_BAD_CORE_MASK);
  EXPECT_EQ(status_of(dispatch(module, scale, 0x10, 16)), JAL_ERROR_BAD_CORE_MASK);
  EXPECT_EQ(status_of(dispatch(module, scale, 1, 15)), JAL_ERROR_BAD_ARGUMENTS);
  EXPECT_EQ(status_of(dispatch(module, scale, 1, 16, 32)), JAL_ERROR_BAD_PACKET) << "unaligned block";
  EXPECT_EQ(status_of(dispatch(module, scale, 1, 16, kArgumentBytes)), JAL_ERROR_BAD_PACKET);
  EXPECT_EQ(status_of(dispatch(module, scale, 1, 16, 0xffffffc0u)), JAL_ERROR_BAD_PACKET);
  EXPECT_EQ(fw.board.jobs.size(), 1u) << "nothing refused reached a core";

  Client other(fw, 1);
  ASSERT_EQ(other.attach(), JAL_OK);
  ASSERT_EQ(other.create_queue(0), JAL_OK);
  other.put(dispatch(module, scale, 1, 16));
  (void)fw.run();
  EXPECT_EQ(other.control().status, JAL_ERROR_NO_KERNEL) << "another client's module";

  fw.board.job_result.status = JAL_ERROR_KERNEL_FAULT;
  fw.board.job_result.fault.status = JAL_ERROR_KERNEL_FAULT;
  fw.board.job_result.fault.core = 2;
  fw.board.job_result.fault.line = 41;
  std::strcpy(fw.board.job_result.fault.text, "it fell over");
  EXPECT_EQ(status_of(dispatch(module, scale, 1, 16)), JAL_ERROR_KERNEL_FAULT);
  EXPECT_EQ(client.last_record().core, 2u);
  EXPECT_EQ(client.last_record().line, 41u);
  EXPECT_EQ(client.last_record().tag, 77u);
  EXPECT_STREQ(client.last_record().kernel, "scale");
  EXPECT_STREQ(client.last_record().text, "it fell over");
}

TEST_F(Command, AMissedDeadlineTakesTheDeviceDown) {
  const std::uint64_t module = load_module();
  Client other(fw, 3);
  ASSERT_EQ(other.attach(), JAL_OK);
  ASSERT_EQ(other.create_queue(0), JAL_OK);
  jal_packet wait = packet(JAL_PACKET_EVENT_WAIT, 5, 1);
  wait.wait_event = 4;
  wait.wait_value = 1;
  other.put(wait);
  (void)fw.run();
  EXPECT_EQ(other.event(5).value, 0u);
  fw.board.job_result.status = fw.board.job_result.fault.status = JAL_ERROR_KERNEL_DEADLINE;
  client.put(dispatch(module, scale, 1, 16));
  EXPECT_EQ(fw.run(), StepResult::lost);
  EXPECT_EQ(client.region().lost_status, static_cast<std::uint32_t>(JAL_ERROR_KERNEL_DEADLINE));
  EXPECT_EQ(other.event(5).value, JAL_EVENT_POISONED) << "everybody who waits is told";
  EXPECT_EQ(other.control().state, JAL_QUEUE_STATE_POISONED);
  EXPECT_EQ(client.ask(JAL_MAILBOX_ECHO, {1}).status, JAL_ERROR_DEVICE_LOST);
  EXPECT_EQ(fw.tag(JAL_TAG_STATE), JAL_DEVICE_STATE_LOST);
}

TEST_F(Command, QueuesWaitForEachOthersEvents) {
  ASSERT_EQ(client.create_queue(1), JAL_OK);
  jal_packet wait = packet(JAL_PACKET_EVENT_WAIT, 2, 1);
  wait.wait_event = 1;
  wait.wait_value = 10;
  client.put(wait, 0);
  (void)fw.run();
  EXPECT_EQ(client.control(0).completed, 0u);
  client.put(packet(JAL_PACKET_EVENT_SIGNAL, 1, 9), 1);
  (void)fw.run();
  EXPECT_EQ(client.control(0).completed, 0u) << "9 is not 10";
  client.put(packet(JAL_PACKET_EVENT_SIGNAL, 1, 10), 1);
  (void)fw.run();
  EXPECT_EQ(client.control(0).completed, 1u);
  EXPECT_EQ(client.event(2).value, 1u);
  EXPECT_GE(client.event(2).start_ps, client.event(1).end_ps) << "modelled time is causal";
  // The mirror is for reading: what the client writes there changes nothing.
  client.event(1).value = 3;
  client.put(packet(JAL_PACKET_EVENT_SIGNAL, 1, 10), 1);
  (void)fw.run();
  EXPECT_EQ(client.control(1).status, JAL_ERROR_EVENT_BACKWARDS);
}

TEST_F(Command, PoisonTravelsAndRecoveryEndsIt) {
  ASSERT_EQ(client.create_queue(1), JAL_OK);
  jal_packet bad = packet(99, 1, 1);
  client.put(bad, 0);
  client.put(packet(JAL_PACKET_TIMESTAMP, 2, 1), 0);  // behind the failure
  jal_packet wait = packet(JAL_PACKET_EVENT_WAIT, 3, 1);
  wait.wait_event = 2;
  wait.wait_value = 1;
  client.put(wait, 1);  // on another queue
  (void)fw.run();
  const std::uint32_t first = client.control(0).record;
  EXPECT_EQ(client.event(1).status, JAL_ERROR_BAD_PACKET);
  EXPECT_EQ(client.event(2).status, JAL_ERROR_UPSTREAM_FAILED);
  EXPECT_EQ(client.event(2).record, first) << "the cause, not the symptom";
  EXPECT_EQ(client.event(3).status, JAL_ERROR_UPSTREAM_FAILED);
  EXPECT_EQ(client.control(1).state, JAL_QUEUE_STATE_POISONED);
  EXPECT_EQ(client.control(0).completed, 2u) << "dropped packets give their slots back";

  // A recovered queue works; a poisoned event stays so until it is reset.
  EXPECT_EQ(client.ask(JAL_MAILBOX_QUEUE_RECOVER, {0}).status, JAL_OK);
  client.put(packet(JAL_PACKET_TIMESTAMP, 4, 1), 0);
  (void)fw.run();
  EXPECT_EQ(client.event(4).value, 1u);
  client.put(packet(JAL_PACKET_TIMESTAMP, 2, 2), 0);
  (void)fw.run();
  EXPECT_EQ(client.control(0).status, JAL_ERROR_UPSTREAM_FAILED);
  EXPECT_EQ(client.ask(JAL_MAILBOX_QUEUE_RECOVER, {0}).status, JAL_OK);
  EXPECT_EQ(client.ask(JAL_MAILBOX_EVENT_RESET, {2}).status, JAL_OK);
  client.put(packet(JAL_PACKET_TIMESTAMP, 2, 1), 0);
  (void)fw.run();
  EXPECT_EQ(client.event(2).value, 1u);
  EXPECT_EQ(client.ask(JAL_MAILBOX_EVENT_RESET, {0}).status, JAL_ERROR_INVALID_HANDLE);
  EXPECT_EQ(client.ask(JAL_MAILBOX_EVENT_RESET, {JAL_EVENT_COUNT}).status, JAL_ERROR_INVALID_HANDLE);
}

TEST_F(Command, RecoveryDropsWhatIsQueuedBehindAWait) {
  jal_packet wait = packet(JAL_PACKET_EVENT_WAIT);
  wait.wait_event = 1;
  wait.wait_value = 1;
  client.put(wait);
  client.put(packet(JAL_PACKET_TIMESTAMP, 2, 1));
  (void)fw.run();
  EXPECT_EQ(client.ask(JAL_MAILBOX_QUEUE_DESTROY, {0}).status, JAL_ERROR_QUEUE_BUSY);
  std::uint64_t id = 0;
  (void)client.alloc(1, 64, &id);
  EXPECT_EQ(client.ask(JAL_MAILBOX_PAGES_FREE, {id}).status, JAL_ERROR_MEMORY_BUSY) << "queued work may use it";
  const Client::Answer answer = client.ask(JAL_MAILBOX_QUEUE_RECOVER, {0});
  EXPECT_EQ(answer.word[0], 2u);
  EXPECT_EQ(client.event(2).value, JAL_EVENT_POISONED);
  EXPECT_EQ(client.ask(JAL_MAILBOX_PAGES_FREE, {id}).status, JAL_OK);
}

TEST_F(Command, RingsGoRoundManyTimes) {
  std::uint64_t value = 0;
  for (int lap = 0; lap < 10; ++lap) {
    for (std::uint32_t i = 0; i < (1u << kDepthLog2); ++i) client.put(packet(JAL_PACKET_TIMESTAMP, 1, ++value));
    (void)fw.run();
    ASSERT_EQ(client.control().consumed, value);
    ASSERT_EQ(client.event(1).value, value);
  }
  EXPECT_EQ(fw.tag(JAL_TAG_PACKETS), value);
  EXPECT_EQ(fw.tag(JAL_TAG_PENDING), 0u);
}

TEST_F(Command, TimesFollowTheModelAlone) {
  const std::uint64_t begin = client.ask(JAL_MAILBOX_CLOCK_QUERY).word[0];
  client.put(packet(JAL_PACKET_TIMESTAMP, 1, 1));
  jal_packet idle = packet(JAL_PACKET_IDLE, 2, 1);
  idle.p[0] = 50;  // ns
  client.put(idle);
  jal_packet late = packet(JAL_PACKET_TIMESTAMP, 3, 1);
  late.header |= JAL_PACKET_FLAG_AFTER_HOST << 8;
  client.put(late);
  (void)fw.run();
  const std::uint64_t packet_ps = fw.board.costs.packet_ps;
  EXPECT_EQ(client.event(1).end_ps - begin, packet_ps);
  EXPECT_EQ(client.event(2).end_ps - client.event(1).end_ps, packet_ps + 50'000);
  EXPECT_EQ(client.event(3).end_ps - client.event(2).end_ps, packet_ps + fw.board.costs.host_latency_ps);
  EXPECT_EQ(client.ask(JAL_MAILBOX_CLOCK_QUERY).word[0], client.event(3).end_ps);
  jal_packet forever = packet(JAL_PACKET_IDLE);
  forever.p[0] = 3600ull * 1'000'000'000 + 1;
  EXPECT_EQ(status_of(forever), JAL_ERROR_BAD_PACKET);
}

TEST_F(Command, PhasesAddUpToThePackage) {
  const auto set_phase = [&](std::uint32_t phase) {
    jal_packet p = packet(JAL_PACKET_PHASE);
    p.p0 = phase;
    client.put(p);
    jal_packet idle = packet(JAL_PACKET_IDLE);
    idle.p[0] = 1'000'000 * (phase + 1);
    client.put(idle);
    jal_packet count = packet(JAL_PACKET_COUNT);
    count.p0 = phase;
    count.p[0] = 10 + phase;
    client.put(count);
    (void)fw.run();
  };
  set_phase(JAL_PHASE_PREFILL);
  set_phase(JAL_PHASE_VERIFY_DECODE);
  std::uint64_t energy = 0, time = 0;
  for (std::uint32_t phase = 0; phase < JAL_PHASE_COUNT; ++phase) {
    energy += fw.tag(JAL_TAG_PHASE_ENERGY_NJ, phase);
    time += fw.tag(JAL_TAG_PHASE_TIME_PS, phase);
  }
  EXPECT_EQ(energy, fw.tag(JAL_TAG_ENERGY_NJ));
  EXPECT_EQ(time, fw.tag(JAL_TAG_CLOCK_PS));
  EXPECT_EQ(fw.tag(JAL_TAG_PHASE_TOKENS, JAL_PHASE_PREFILL), 10u + JAL_PHASE_PREFILL);
  EXPECT_EQ(fw.tag(JAL_TAG_PHASE_TOKENS, JAL_PHASE_VERIFY_DECODE), 10u + JAL_PHASE_VERIFY_DECODE);
  EXPECT_EQ(fw.tag(JAL_TAG_PHASE), JAL_PHASE_VERIFY_DECODE);
  jal_packet p = packet(JAL_PACKET_PHASE);
  p.p0 = JAL_PHASE_COUNT;
  EXPECT_EQ(status_of(p), JAL_ERROR_BAD_PACKET);
  p = packet(JAL_PACKET_COUNT);
  p.p0 = JAL_PHASE_COUNT;
  EXPECT_EQ(status_of(p), JAL_ERROR_BAD_PACKET);
}

TEST_F(Command, RecordsGoRoundAndKeepTheirNumbers) {
  for (std::uint64_t n = 1; n <= 2 * JAL_ERROR_RECORDS + 3; ++n) {
    EXPECT_EQ(status_of(packet(99)), JAL_ERROR_BAD_PACKET);
    ASSERT_EQ(client.region().record_count, n);
    ASSERT_EQ(client.last_record().id, n);
  }
  EXPECT_EQ(fw.tag(JAL_TAG_ERRORS), 2 * JAL_ERROR_RECORDS + 3u);
}

}  // namespace
}  // namespace jal::fw::test
