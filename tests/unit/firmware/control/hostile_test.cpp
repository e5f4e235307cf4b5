// Hostile clients: random packets, random words in everything a client maps. The board checks again what reaches it and
// aborts when the firmware let something through; the neighbours' bytes, pages and events stay as they were.
#include <bit>
#include <random>

#include "tests/unit/firmware/control/fake_board.hpp"

namespace jal::fw {
namespace {

class HostileClient : public ::testing::TestWithParam<std::uint64_t> {
 protected:
  HostileClient() : draw(GetParam()) {}
  std::uint64_t below(std::uint64_t n) { return draw() % n; }
  /// A number near one that means something, or noise.
  std::uint64_t number() {
    const std::uint64_t likely[] = {0,          1,          4,    63, 64, 4096, JAL_PAGE_BYTES, hal::Board::kSliceBytes,
                                    1ull << 32, 1ull << 63, ~0ull};
    switch (below(4)) {
      case 0:
        return draw() >> below(64);
      case 1:
        return likely[below(std::size(likely))] + below(3) - 1;
      default:
        return below(6);
    }
  }
  std::uint64_t address(std::uint64_t mask = 0) {
    if (below(12) == 0) return draw() & ~JAL_ADDRESS_HOST_VA_BIT;
    if (below(3) == 0) return host_address(host.data() + below(host.size()));
    return JAL_ADDRESS_HBM(mask != 0 ? 0 : below(5),
                           below(hal::Board::kPages) * JAL_PAGE_BYTES + 4 * below(JAL_PAGE_BYTES / 8));
  }
  /// A packet that is right in most respects: what passes the first check meets the next one.
  jal_packet packet() {
    jal_packet p = {};
    const auto type = static_cast<std::uint32_t>(below(12) == 0 ? number() & 0xff : below(13));
    p.header = type | static_cast<std::uint32_t>(below(4)) << 8 | static_cast<std::uint32_t>(below(2)) << 31;
    const auto event = [&] { return static_cast<std::uint32_t>(below(20) == 0 ? number() : below(3)); };
    p.wait_event = below(4) == 0 ? event() : 0;
    p.signal_event = event();
    p.signal_value = below(20) == 0 ? number() : ++value;
    const std::uint64_t bytes = below(8) == 0 ? number() : 4 * below(200);
    const std::uint64_t mask = below(3) == 0 ? below(16) : 0;
    switch (type) {
      case JAL_PACKET_COPY:
        p = with(p, copy_packet({0, address(mask), address(mask), bytes, mask}));
        break;
      case JAL_PACKET_FILL:
        p = with(p, fill_packet({1, address(mask), bytes, mask, 0}));
        break;
      case JAL_PACKET_DISPATCH: {
        const std::uint64_t kernel = below(3), block = kernel == 1 && below(8) != 0 ? 256 : 0;
        p = with(p, dispatch_packet({static_cast<std::uint32_t>((1 + below(5)) << 16 | kernel), 1 + below(17),
                                     below(4) * 64 << 32 | block, 0, 0}));
        break;
      }
      default:
        if (below(2) == 0) p.p0 = static_cast<std::uint32_t>(below(5));
        if (below(2) == 0) p.p[0] = below(1000);
    }
    if (below(12) == 0) p.p[below(4)] = number();
    if (below(12) == 0) p.p0 = static_cast<std::uint32_t>(number());
    return p;
  }
  static jal_packet with(jal_packet head, const jal_packet& payload) {
    head.p0 = payload.p0;
    std::memcpy(head.p, payload.p, sizeof head.p);
    return head;
  }
  /// Overwrites words anywhere in what the client maps, also where only the device writes.
  void scribble(Client& client) {
    for (std::uint64_t n = below(8); n > 0; --n) {
      const std::uint64_t size = below(2) == 0 ? offsetof(jal_client_region, events) : Client::kBytes;
      const std::uint64_t value_to_write = number();
      std::memcpy(client.bytes() + below(size / 8) * 8, &value_to_write, 8);
    }
  }

  std::mt19937_64 draw;
  std::uint64_t value = 0;
  std::vector<std::uint8_t> host = std::vector<std::uint8_t>(4 * JAL_PAGE_BYTES);
};

TEST_P(HostileClient, NeighboursNoticeNothing) {
  Chip chip;
  chip.board.host_buffers = {{host.data(), host.size()}};
  chip.board.budget_limit = 24ull << 20;
  Client victim(chip, 3), insider(chip, 2), stranger(chip, 9, 0);
  ASSERT_EQ(victim.attach(), JAL_OK);
  ASSERT_EQ(victim.create_queue(), JAL_OK);
  const std::uint64_t secret = victim.allocate(0b1111, 2), alone = victim.allocate(0b0100, 3);
  for (std::uint64_t slice = 0; slice < 4; ++slice)
    std::memset(chip.board.at(JAL_ADDRESS_HBM(slice, secret)), 0x5a, 2 * JAL_PAGE_BYTES);
  std::memset(chip.board.at(JAL_ADDRESS_HBM(2, alone)), 0x5a, 3 * JAL_PAGE_BYTES);
  const std::vector<std::uint8_t> file = make_module({make_kernel("k"), make_kernel("t", {JAL_ARGUMENT_TENSOR})});
  ASSERT_EQ(victim.ask(JAL_MAILBOX_MODULE_LOAD, {host_address(file.data()), file.size()}), JAL_OK);
  const std::size_t victims_extents = chip.board.extents.size();
  std::uint64_t tensors = 0;
  chip.board.on_job = [&](const hal::CoreJob& job, hal::CoreJobResult&) {
    EXPECT_NE(job.client, victim.slot());
    if (job.kernel == 1) {
      ++tensors;
      jal_tensor_info info;
      std::memcpy(&info, job.arguments, sizeof info);
      for (std::uint64_t rest = info.slice_mask; rest != 0; rest &= rest - 1)
        EXPECT_TRUE(
            chip.board.owns(job.client, JAL_ADDRESS_HBM(std::countr_zero(rest), info.offset), info.bytes_per_slice));
    }
    return JAL_OK;
  };

  for (int life = 0; life < 4; ++life) {
    for (Client* hostile : {&insider, &stranger}) {
      std::memset(hostile->bytes(), 0, Client::kBytes);
      jal_handshake& hello = hostile->region().client;
      hello.magic = JAL_CLIENT_MAGIC;
      hello.abi_min = hello.abi_max = 1;
      hello.features = JAL_FEATURE_HOST_VA;
      // The device decides what it offers; to a stranger it offers no host addresses, whatever he understands.
      chip.board.features =
          hostile == &insider ? JAL_FEATURE_HOST_VA | JAL_FEATURE_NATIVE : std::uint64_t{JAL_FEATURE_NATIVE};
      chip.board.regions[hostile->slot()] = {hostile->bytes(), Client::kBytes};
      ASSERT_EQ(hostile->attach(), JAL_OK);
      for (std::uint32_t queue = 0; queue < 4; ++queue) ASSERT_EQ(hostile->create_queue(queue), JAL_OK);
      if (hostile == &insider) {
        ASSERT_EQ(hostile->ask(JAL_MAILBOX_MODULE_LOAD, {host_address(file.data()), file.size()}), JAL_OK);
      }
      hostile->allocate(0b1111, 1 + below(4));
      hostile->allocate(1ull << below(4), 1 + below(4));
    }
    for (int round = 0; round < 4000; ++round) {
      Client& hostile = below(2) == 0 ? insider : stranger;
      for (std::uint32_t queue = 0; queue < 4; ++queue) {
        for (std::uint64_t n = below(4); n > 0; --n) {
          jal_packet p = packet();
          std::uint64_t slot = below(Client::kDepth);
          // Where the firmware looks next, with the lap bit it expects; else anywhere, with either.
          if (below(3) != 0) {
            slot = hostile.region().queues[queue].consumed;
            p.header = (p.header & ~JAL_PACKET_LAP_BIT) | (slot / Client::kDepth % 2 == 0 ? JAL_PACKET_LAP_BIT : 0);
          }
          std::memcpy(&hostile.slot_of(queue, slot), &p, sizeof p);
        }
      }
      if (below(2) == 0) scribble(hostile);
      // A tensor that agrees with itself, over pages that may be anybody's.
      jal_tensor_info info = {};
      info.struct_size = sizeof info;
      info.dtype = JAL_DTYPE_U8;
      info.ndim = 1;
      info.dims[0] = 1;
      info.nfactors = 1;
      info.slice_mask = 1 + below(15);
      info.factors[0] = {-1, JAL_PLACE_SLICE, static_cast<std::uint32_t>(std::popcount(info.slice_mask))};
      info.offset = below(hal::Board::kPages) * JAL_PAGE_BYTES;
      info.bytes_per_slice = below(8) == 0 ? number() : 1 + below(JAL_PAGE_BYTES);
      std::memcpy(hostile.arguments(static_cast<std::uint32_t>(below(4))) + below(4) * 64, &info, sizeof info);
      jal_mailbox_half& request = hostile.region().request;
      if (below(3) == 0) {
        request.opcode = static_cast<std::uint32_t>(below(8) == 0 ? number() : below(13));
        // An insider's host addresses are honest, since they are his own; what lies there is not.
        if (request.opcode == JAL_MAILBOX_MODULE_LOAD && &hostile == &insider) {
          const std::uint64_t at = below(host.size());
          for (std::uint64_t i = at; i < host.size() && i < at + 512; ++i) host[i] = static_cast<std::uint8_t>(draw());
          request.word[0] = host_address(host.data() + at);
          request.word[1] = below(host.size() - at);
          std::memset(request.word + 2, 0, 40);
        } else {
          for (std::uint64_t& word : request.word) word = below(3) == 0 ? address() : number();
          if (below(2) == 0) std::memset(request.word + 1, 0, 48);
        }
        ++request.sequence;
      } else if (request.opcode == JAL_MAILBOX_MODULE_LOAD) {
        request.opcode = JAL_MAILBOX_ECHO;  // what scribble() may have left there
      }
      if (&hostile == &insider && request.opcode == JAL_MAILBOX_MODULE_LOAD &&
          (request.word[0] < host_address(host.data()) || request.word[0] - host_address(host.data()) > host.size() ||
           request.word[1] > host.size() - (request.word[0] - host_address(host.data())))) {
        request.opcode = JAL_MAILBOX_ECHO;
      }
      ASSERT_NE(chip.control().step(), StepResult::lost);
      if (below(4) == 0) {
        for (std::uint64_t queue = 0; queue < 4; ++queue) (void)hostile.ask(JAL_MAILBOX_QUEUE_RECOVER, {queue});
        for (std::uint32_t queue = 0; queue < 4; ++queue) (void)hostile.create_queue(queue);
        if (&hostile == &insider) (void)hostile.ask(JAL_MAILBOX_MODULE_LOAD, {host_address(file.data()), file.size()});
        (void)hostile.ask(JAL_MAILBOX_PAGES_ALLOC, {1 + below(15), 2, 2 * JAL_PAGE_BYTES});
        for (std::uint64_t event = 1; event < 3; ++event) (void)hostile.ask(JAL_MAILBOX_EVENT_RESET, {event});
      }
    }
    ASSERT_EQ(victim.run(JAL_PACKET_EVENT_SIGNAL, signalling(1, static_cast<std::uint64_t>(life + 1))), JAL_OK);
    for (std::uint64_t slice = 0; slice < 4; ++slice) {
      for (std::uint64_t i = 0; i < 2 * JAL_PAGE_BYTES; ++i)
        ASSERT_EQ(chip.board.at(JAL_ADDRESS_HBM(slice, secret))[i], 0x5a);
    }
    for (std::uint64_t i = 0; i < 3 * JAL_PAGE_BYTES; ++i) ASSERT_EQ(chip.board.at(JAL_ADDRESS_HBM(2, alone))[i], 0x5a);
    insider.detach();
    stranger.detach();
    ASSERT_EQ(chip.board.extents.size(), victims_extents) << "what hostile clients held is returned, and nothing else";
    ASSERT_EQ(chip.board.codes.size(), 1u);
    ASSERT_EQ(chip.telemetry(JAL_TAG_CLIENTS), 1u);
  }
  EXPECT_GT(chip.board.copies, 100u) << "the noise is refused at the door and tests nothing behind it";
  EXPECT_GT(chip.board.jobs.size(), 10u);
  EXPECT_GT(tensors, 0u);
  EXPECT_EQ(victim.region().record_count, 0u);
}

INSTANTIATE_TEST_SUITE_P(Seeds, HostileClient, ::testing::Range<std::uint64_t>(1, 9));

}  // namespace
}  // namespace jal::fw
