// Every packet type of the contract: what it does, and each status that refuses it.
#include <gmock/gmock.h>

#include <array>

#include "tests/unit/firmware/control/fake_board.hpp"

namespace jal::fw {
namespace {

using ::testing::HasSubstr;

constexpr std::uint64_t kPage = JAL_PAGE_BYTES;

class Packets : public ::testing::Test {
 protected:
  Packets() : host(2 * kPage), guard(16 * kPage) {
    for (Client* each : {&client, &other}) {
      EXPECT_EQ(each->attach(), JAL_OK);
      EXPECT_EQ(each->create_queue(), JAL_OK);
    }
    chip.board.host_buffers = {{host.data(), host.size()}, {guard.data(), guard.size()}};
    for (std::size_t i = 0; i < host.size(); ++i) host[i] = static_cast<std::uint8_t>(i * 7 + i / 251);
    EXPECT_EQ(client.ask(JAL_MAILBOX_PAGES_ALLOC, {0b1111, 2, kPage + 64, 0}), JAL_OK);
    mine = client.result[0];
    theirs = other.allocate(0b1111, 1);
  }
  std::int32_t copy(std::uint64_t dst, std::uint64_t src, std::uint64_t bytes, std::uint64_t mask = 0) {
    return client.run(JAL_PACKET_COPY, copy_packet({0, dst, src, bytes, mask}));
  }
  std::int32_t fill(std::uint64_t dst, std::uint64_t bytes, std::uint64_t mask = 0, std::uint64_t reserved = 0) {
    return client.run(JAL_PACKET_FILL, fill_packet({0x04030201, dst, bytes, mask, reserved}));
  }
  static std::uint64_t hbm(std::uint64_t slice, std::uint64_t offset) { return JAL_ADDRESS_HBM(slice, offset); }

  Chip chip;
  Client client{chip, 0}, other{chip, 1};
  std::vector<std::uint8_t> host, guard;
  std::uint64_t mine = 0, theirs = 0;
};

TEST_F(Packets, CopyMovesBytesBetweenHostAndSlices) {
  ASSERT_EQ(copy(hbm(2, mine), host_address(host.data()), 1000), JAL_OK);
  ASSERT_EQ(copy(hbm(1, mine + 8), hbm(2, mine), 1000), JAL_OK);
  std::vector<std::uint8_t> back(1000);
  chip.board.host_buffers.push_back({back.data(), back.size()});
  ASSERT_EQ(copy(host_address(back.data()), hbm(1, mine + 8), 1000), JAL_OK);
  EXPECT_TRUE(std::equal(back.begin(), back.end(), host.begin()));
  EXPECT_EQ(chip.telemetry(JAL_TAG_BYTES_HOST), 2000u) << "what stays in HBM is not host traffic";
}

TEST_F(Packets, CopyWithASliceMaskScattersAndGathersInAscendingOrder) {
  ASSERT_EQ(copy(hbm(0, mine + 64), host_address(host.data()), 256, 0b1101), JAL_OK);
  for (std::size_t part = 0; part < 3; ++part) {
    const std::uint64_t slice = std::array{0, 2, 3}[part];
    EXPECT_EQ(std::memcmp(chip.board.at(hbm(slice, mine + 64)), host.data() + part * 256, 256), 0) << slice;
  }
  EXPECT_EQ(*chip.board.at(hbm(1, mine + 64)), 0);
  std::memset(guard.data(), 0xee, 1024);
  ASSERT_EQ(copy(host_address(guard.data()), hbm(0, mine + 64), 256, 0b1101), JAL_OK);
  EXPECT_EQ(std::memcmp(guard.data(), host.data(), 768), 0);
  EXPECT_EQ(guard[768], 0xee);
  EXPECT_EQ(chip.telemetry(JAL_TAG_BYTES_HOST), 2u * 768);
}

TEST_F(Packets, CopyUpToTheLastByteUsedAndNotBeyond) {
  EXPECT_EQ(copy(hbm(0, mine), host_address(host.data()), kPage + 64), JAL_OK);
  EXPECT_EQ(copy(hbm(0, mine), host_address(host.data()), kPage + 65), JAL_ERROR_BAD_ADDRESS);
  EXPECT_EQ(client.record().address, hbm(0, mine));
  EXPECT_EQ(client.record().near_base, hbm(0, mine));
  EXPECT_EQ(client.record().near_bytes, kPage + 64);
  EXPECT_EQ(copy(hbm(0, mine + kPage + 63), host_address(host.data()), 1), JAL_OK);
  // The rest of the last page is granted to this client too, but it is a guard: not somebody else's.
  EXPECT_EQ(copy(hbm(0, mine + kPage + 64), host_address(host.data()), 1), JAL_ERROR_BAD_ADDRESS);
  EXPECT_EQ(copy(hbm(0, mine + 2 * kPage - 1), host_address(host.data()), 1), JAL_ERROR_BAD_ADDRESS);
  EXPECT_THAT(client.record().text, HasSubstr("not inside one allocation"));
}

TEST_F(Packets, CopyRefusalsNameTheirCause) {
  const std::uint64_t from = host_address(host.data());
  const struct {
    const char* why;
    std::int32_t status;
    std::uint64_t dst, src, bytes, mask;
  } cases[] = {
      {"no bytes", JAL_ERROR_BAD_PACKET, hbm(0, mine), from, 0, 0},
      {"more than 32 bits of bytes", JAL_ERROR_BAD_PACKET, hbm(0, mine), from, 1ull << 32, 0},
      {"bytes that wrap", JAL_ERROR_BAD_PACKET, hbm(0, mine), from, ~0ull, 0},
      {"destination of another client", JAL_ERROR_FOREIGN_ADDRESS, hbm(0, theirs), from, 64, 0},
      {"source of another client", JAL_ERROR_FOREIGN_ADDRESS, from, hbm(3, theirs), 64, 0},
      {"across the boundary to another client", JAL_ERROR_BAD_ADDRESS, hbm(0, theirs - 1), from, 2, 0},
      {"unmapped page", JAL_ERROR_BAD_ADDRESS, hbm(0, theirs + kPage), from, 64, 0},
      {"offset beyond the slice", JAL_ERROR_BAD_ADDRESS, hbm(0, hal::Board::kSliceBytes), from, 64, 0},
      {"last byte of the offsets", JAL_ERROR_BAD_ADDRESS, hbm(0, UINT32_MAX), from, 1, 0},
      {"slice the chip does not have", JAL_ERROR_BAD_ADDRESS, hbm(hal::Board::kSlices, mine), from, 64, 0},
      {"slice 255", JAL_ERROR_BAD_ADDRESS, hbm(255, mine), from, 64, 0},
      {"space 0", JAL_ERROR_BAD_ADDRESS, mine, from, 64, 0},
      {"host window", JAL_ERROR_BAD_ADDRESS, (2ull << 40) | mine, from, 64, 0},
      {"L1 window", JAL_ERROR_BAD_ADDRESS, (3ull << 40) | mine, from, 64, 0},
      {"space above the spaces", JAL_ERROR_BAD_ADDRESS, hbm(0, mine) | 1ull << 62, from, 64, 0},
      {"host range at the end of the address space", JAL_ERROR_BAD_ADDRESS, hbm(0, mine), ~0ull, 64, 0},
      {"mask of slices the chip does not have", JAL_ERROR_BAD_SLICE_MASK, hbm(0, mine), from, 64, 0b10001},
      {"mask and an address of slice 1", JAL_ERROR_BAD_SLICE_MASK, hbm(1, mine), from, 64, 0b0011},
      {"mask with both sides in HBM", JAL_ERROR_BAD_PACKET, hbm(0, mine), hbm(0, mine + 64), 64, 0b0011},
      {"mask with both sides on the host", JAL_ERROR_BAD_PACKET, host_address(guard.data()), from, 64, 0b0011},
      {"mask whose second slice is another client's", JAL_ERROR_FOREIGN_ADDRESS, hbm(0, theirs), from, 64, 0b0010},
  };
  for (const auto& c : cases) {
    EXPECT_EQ(copy(c.dst, c.src, c.bytes, c.mask), c.status) << c.why << ": " << client.record().text;
  }
  EXPECT_EQ(client.run(JAL_PACKET_COPY, copy_packet({1, hbm(0, mine), from, 64, 0})), JAL_ERROR_BAD_PACKET)
      << "reserved";
  EXPECT_EQ(chip.board.copies, 0u);
}

TEST_F(Packets, CopyOfABoardThatRefusesCarriesItsReason) {
  EXPECT_EQ(copy(hbm(0, mine), host_address(&chip), 64), JAL_ERROR_BAD_ADDRESS);
  EXPECT_STREQ(client.record().text, "not a host buffer");
}

TEST_F(Packets, HostAddressesNeedTheFeature) {
  Client remote{chip, 2, 0};
  ASSERT_EQ(remote.attach(), JAL_OK);
  ASSERT_EQ(remote.create_queue(), JAL_OK);
  const std::uint64_t offset = remote.allocate(1, 1);
  EXPECT_EQ(remote.run(JAL_PACKET_COPY, copy_packet({0, hbm(0, offset), host_address(host.data()), 64, 0})),
            JAL_ERROR_BAD_ADDRESS);
  EXPECT_EQ(remote.run(JAL_PACKET_COPY, copy_packet({0, hbm(0, offset), hbm(0, offset + 64), 64, 0})), JAL_OK);
  EXPECT_EQ(remote.ask(JAL_MAILBOX_MODULE_LOAD, {host_address(host.data()), 64}), JAL_ERROR_BAD_ADDRESS);
}

TEST_F(Packets, FillRepeatsItsPattern) {
  ASSERT_EQ(fill(hbm(1, mine + 4), 12), JAL_OK);
  EXPECT_EQ(std::memcmp(chip.board.at(hbm(1, mine)), "\0\0\0\0\1\2\3\4\1\2\3\4\1\2\3\4\0", 17), 0);
  ASSERT_EQ(fill(hbm(0, mine), 8, 0b1001), JAL_OK);
  for (const std::uint64_t slice : {0, 3})
    EXPECT_EQ(std::memcmp(chip.board.at(hbm(slice, mine)), "\1\2\3\4\1\2\3\4\0", 9), 0);
  EXPECT_EQ(*chip.board.at(hbm(2, mine)), 0);
  EXPECT_EQ(chip.telemetry(JAL_TAG_BYTES_HOST), 0u);
}

TEST_F(Packets, FillRefusalsNameTheirCause) {
  EXPECT_EQ(fill(hbm(0, mine + 2), 8), JAL_ERROR_UNALIGNED_ADDRESS);
  EXPECT_EQ(fill(hbm(0, mine), 6), JAL_ERROR_UNALIGNED_ADDRESS);
  EXPECT_EQ(fill(hbm(0, mine), 0), JAL_ERROR_BAD_PACKET);
  EXPECT_EQ(fill(hbm(0, mine), 1ull << 32), JAL_ERROR_BAD_PACKET);
  EXPECT_EQ(fill(hbm(0, mine), 8, 0, 1), JAL_ERROR_BAD_PACKET) << "reserved";
  EXPECT_EQ(fill(hbm(0, theirs), 8), JAL_ERROR_FOREIGN_ADDRESS);
  EXPECT_EQ(fill(hbm(0, theirs + kPage), 8), JAL_ERROR_BAD_ADDRESS);
  EXPECT_EQ(fill(host_address(host.data()), 8), JAL_ERROR_BAD_ADDRESS) << "host memory is not filled";
  EXPECT_EQ(fill(hbm(0, mine), 8, 1ull << 40), JAL_ERROR_BAD_SLICE_MASK);
  EXPECT_EQ(chip.board.copies, 0u);
}

TEST_F(Packets, HeadersWithReservedBitsFlagsTypesAndEventsBeyondTheListAreRefused) {
  jal_packet bad = {};
  bad.header = 1u << 16;
  EXPECT_EQ(client.run(JAL_PACKET_TIMESTAMP, signalling(1, 1, bad)), JAL_ERROR_BAD_PACKET);
  bad.header = 4u << 8;
  EXPECT_EQ(client.run(JAL_PACKET_TIMESTAMP, signalling(1, 1, bad)), JAL_ERROR_BAD_PACKET);
  // Type 0 with the lap bit is a published packet of no type.
  for (const std::uint32_t type : {JAL_PACKET_INVALID, 12u, 255u})
    EXPECT_EQ(client.run(type), JAL_ERROR_BAD_PACKET) << type;
  EXPECT_EQ(client.run(JAL_PACKET_IDLE, signalling(JAL_EVENT_COUNT, 1)), JAL_ERROR_BAD_PACKET);
  EXPECT_EQ(client.run(JAL_PACKET_IDLE, signalling(UINT32_MAX, 1)), JAL_ERROR_BAD_PACKET);
  EXPECT_EQ(client.run(JAL_PACKET_IDLE, waiting(JAL_EVENT_COUNT, 0)), JAL_ERROR_BAD_PACKET);
  EXPECT_EQ(client.run(JAL_PACKET_COLLECTIVE), JAL_ERROR_UNIMPLEMENTED);
  EXPECT_EQ(client.run(JAL_PACKET_GRAPH_REPLAY), JAL_ERROR_UNIMPLEMENTED);
}

TEST_F(Packets, PayloadBytesWithoutAMeaningMustBeZero) {
  for (const std::uint32_t type : {JAL_PACKET_EVENT_SIGNAL, JAL_PACKET_EVENT_WAIT, JAL_PACKET_TIMESTAMP}) {
    for (std::uint32_t word = 0; word < 5; ++word) {
      Client fresh{chip, 2};
      ASSERT_EQ(fresh.attach(), JAL_OK);
      ASSERT_EQ(fresh.create_queue(), JAL_OK);
      jal_packet packet = signalling(1, 1);
      if (type == JAL_PACKET_EVENT_WAIT) packet = waiting(1, 0);
      (word == 4 ? reinterpret_cast<std::uint8_t&>(packet.p0) : reinterpret_cast<std::uint8_t&>(packet.p[word])) = 1;
      EXPECT_EQ(fresh.run(type, packet), JAL_ERROR_BAD_PACKET) << type << " word " << word;
    }
  }
  jal_packet packet = {};
  packet.p0 = 1;
  EXPECT_EQ(client.run(JAL_PACKET_IDLE, packet), JAL_ERROR_BAD_PACKET);
  for (const std::uint32_t type : {JAL_PACKET_PHASE, JAL_PACKET_COUNT, JAL_PACKET_IDLE}) {
    for (std::uint32_t word = type == JAL_PACKET_PHASE ? 0 : 1; word < 4; ++word) {
      packet = {};
      packet.p[word] = 1ull << 63;
      EXPECT_EQ(client.run(type, packet), JAL_ERROR_BAD_PACKET) << type << " word " << word;
    }
  }
}

TEST_F(Packets, IdleLetsDeviceTimePassUpToAnHour) {
  const auto idle = [&](std::uint64_t ns) {
    jal_idle_payload payload = {};
    payload.idle_ns = ns;
    return client.run(JAL_PACKET_IDLE, packet_of(payload, jal_idle_payload_encode));
  };
  const std::uint64_t hour = 3600ull * 1000000000;
  EXPECT_EQ(idle(hour), JAL_OK);
  EXPECT_EQ(chip.telemetry(JAL_TAG_CLOCK_PS), hour * 1000 + chip.board.costs.packet_ps);
  EXPECT_EQ(idle(hour + 1), JAL_ERROR_BAD_PACKET);
  EXPECT_EQ(idle(~0ull), JAL_ERROR_BAD_PACKET);
  EXPECT_EQ(chip.telemetry(JAL_TAG_CLOCK_PS), hour * 1000 + chip.board.costs.packet_ps)
      << "a refused packet takes no time";
}

TEST_F(Packets, PhasesAndTokensAreBooked) {
  const auto phase = [&](std::uint32_t value) {
    return client.run(JAL_PACKET_PHASE, packet_of(jal_phase_payload{value, {}}, jal_phase_payload_encode));
  };
  const auto count = [&](std::uint32_t value, std::uint64_t tokens) {
    return client.run(JAL_PACKET_COUNT, packet_of(jal_count_payload{value, tokens, {}}, jal_count_payload_encode));
  };
  ASSERT_EQ(phase(JAL_PHASE_PREFILL), JAL_OK);
  EXPECT_EQ(chip.telemetry(JAL_TAG_PHASE), static_cast<std::uint64_t>(JAL_PHASE_PREFILL));
  ASSERT_EQ(fill(hbm(0, mine), 64), JAL_OK);
  ASSERT_EQ(count(JAL_PHASE_VERIFY_DECODE, 5), JAL_OK);
  ASSERT_EQ(count(JAL_PHASE_VERIFY_DECODE, 2), JAL_OK);
  ASSERT_EQ(phase(JAL_PHASE_IDLE), JAL_OK);
  const std::uint64_t packet_ps = chip.board.costs.packet_ps;
  EXPECT_EQ(chip.telemetry(JAL_TAG_PHASE_TIME_PS, JAL_PHASE_PREFILL), 4 * packet_ps + chip.board.copy_ps);
  EXPECT_EQ(chip.telemetry(JAL_TAG_PHASE_TIME_PS, JAL_PHASE_IDLE), packet_ps);
  EXPECT_EQ(chip.telemetry(JAL_TAG_PHASE_TOKENS, JAL_PHASE_VERIFY_DECODE), 7u);
  EXPECT_EQ(chip.telemetry(JAL_TAG_PHASE_TOKENS, JAL_PHASE_PREFILL), 0u);
  std::uint64_t energy_nj = 0, unit_nj = 0;
  for (std::uint32_t p = 0; p < JAL_PHASE_COUNT; ++p) energy_nj += chip.telemetry(JAL_TAG_PHASE_ENERGY_NJ, p);
  for (std::uint32_t u = 0; u < JAL_UNIT_COUNT; ++u) unit_nj += chip.telemetry(JAL_TAG_UNIT_ENERGY_NJ, u);
  EXPECT_EQ(energy_nj, chip.telemetry(JAL_TAG_ENERGY_NJ));
  EXPECT_EQ(unit_nj, chip.telemetry(JAL_TAG_ENERGY_NJ));
  EXPECT_GT(energy_nj, 0u);
  EXPECT_EQ(phase(JAL_PHASE_COUNT), JAL_ERROR_BAD_PACKET);
  EXPECT_EQ(count(UINT32_MAX, 1), JAL_ERROR_BAD_PACKET);
}

TEST_F(Packets, AClientsPhaseIsItsQueuesOwn) {
  ASSERT_EQ(client.run(JAL_PACKET_PHASE, packet_of(jal_phase_payload{JAL_PHASE_DRAFT, {}}, jal_phase_payload_encode)),
            JAL_OK);
  const std::uint64_t draft_ps = chip.telemetry(JAL_TAG_PHASE_TIME_PS, JAL_PHASE_DRAFT);
  jal_idle_payload idle = {};
  idle.idle_ns = 1000;
  ASSERT_EQ(other.run(JAL_PACKET_IDLE, packet_of(idle, jal_idle_payload_encode)), JAL_OK);
  EXPECT_EQ(chip.telemetry(JAL_TAG_PHASE_TIME_PS, JAL_PHASE_DRAFT), draft_ps);
  EXPECT_EQ(chip.telemetry(JAL_TAG_PHASE), static_cast<std::uint64_t>(JAL_PHASE_IDLE));
}

}  // namespace
}  // namespace jal::fw
