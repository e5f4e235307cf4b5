// Boot, handshake, mailbox, pages, modules, telemetry and log of the management firmware, on the fake board.
#include <random>

#include "tests/unit/firmware/protocol/firmware_fixture.hpp"

namespace jal::fw::test {
namespace {

TEST(Boot, EveryPostStepStopsAtItsOwnCode) {
  const struct {
    std::uint32_t code;
    void (*spoil)(hal::Board&);
  } cases[] = {
      {JAL_POST_CLOCK, [](hal::Board& b) { b.chip.clock_hz = 0; }},
      {JAL_POST_MEMORY, [](hal::Board& b) { b.chip.slices = 65; }},
      {JAL_POST_MEMORY, [](hal::Board& b) { b.chip.slice_bytes += 1; }},
      {JAL_POST_CORES, [](hal::Board& b) { b.chip.grid_rows = 3; }},
      {JAL_POST_POWER, [](hal::Board& b) { b.chip.sustained_milliwatts = b.chip.rated_milliwatts + 1; }},
  };
  for (const auto& c : cases) {
    Firmware fw;
    c.spoil(fw.board);
    fw.control->boot();
    EXPECT_EQ(fw.tag(JAL_TAG_POST_CODE), c.code | JAL_POST_FAILED);
    EXPECT_EQ(fw.tag(JAL_TAG_STATE), JAL_DEVICE_STATE_FAILED);
    Client client(fw, 0);
    EXPECT_EQ(client.attach(), JAL_ERROR_BOOT_FAILED);
    EXPECT_EQ(client.region().post_code, c.code | JAL_POST_FAILED);
  }
  Firmware fw;
  fw.board.has_telemetry = false;
  fw.control->boot();
  Client client(fw, 0);
  fw.board.has_telemetry = true;
  EXPECT_EQ(client.attach(), JAL_ERROR_BOOT_FAILED);
}

TEST(Boot, ReadyAndLoggedInOrder) {
  Firmware fw;
  fw.control->boot();
  EXPECT_EQ(fw.tag(JAL_TAG_POST_CODE), JAL_POST_READY);
  EXPECT_EQ(fw.tag(JAL_TAG_STATE), JAL_DEVICE_STATE_OK);
  ASSERT_EQ(fw.board.log.written, JAL_POST_READY + 1u);
  for (std::uint32_t i = 0; i <= JAL_POST_READY; ++i) {
    EXPECT_EQ(fw.board.log.entry[i].id, JAL_LOG_BOOT_POST);
    EXPECT_EQ(fw.board.log.entry[i].word[0], i);
  }
}

class Session : public testing::Test {
 protected:
  Session() { fw.control->boot(); }
  Firmware fw;
};

TEST_F(Session, HandshakeIsRefusedWithAReasonOfItsOwn) {
  const struct {
    std::int32_t status;
    void (*spoil)(jal_handshake&);
  } cases[] = {
      {JAL_ERROR_HANDSHAKE_REFUSED, [](jal_handshake& h) { h.magic = 1; }},
      {JAL_ERROR_HANDSHAKE_REFUSED, [](jal_handshake& h) { h.abi_min = h.abi_max + 1; }},
      {JAL_ERROR_ABI_TOO_OLD, [](jal_handshake& h) { h.abi_min = h.abi_max = JAL_ABI_VERSION_MAX + 1; }},
      {JAL_ERROR_ABI_TOO_NEW, [](jal_handshake& h) { h.abi_min = h.abi_max = JAL_ABI_VERSION_MIN - 1; }},
      {JAL_ERROR_RESERVED_NOT_ZERO, [](jal_handshake& h) { h.reserved[3] = 1; }},
      {JAL_ERROR_RESERVED_NOT_ZERO, [](jal_handshake& h) { h.status = 1; }},
  };
  for (const auto& c : cases) {
    Client client(fw, 1);
    c.spoil(client.region().client);
    EXPECT_EQ(client.attach(), c.status);
    EXPECT_EQ(client.region().device.status, c.status);
    EXPECT_EQ(client.region().device.abi_agreed, 0u);
    EXPECT_EQ(fw.tag(JAL_TAG_CLIENTS), 0u);
  }
  Client client(fw, 1);
  EXPECT_EQ(client.attach(), JAL_OK);
  EXPECT_EQ(client.region().device.magic, JAL_DEVICE_MAGIC);
  EXPECT_EQ(client.region().device.abi_agreed, JAL_ABI_VERSION_MAX);
  EXPECT_STREQ(client.region().chip.model, "fake");
  EXPECT_EQ(fw.tag(JAL_TAG_CLIENTS), 1u);
  EXPECT_EQ(fw.control->attach(hal::kMaxClients), JAL_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(fw.control->attach(7), JAL_ERROR_INVALID_ARGUMENT) << "no region is mapped";
}

TEST_F(Session, MailboxEchoesOnceForEachSequence) {
  Client client(fw, 0);
  ASSERT_EQ(client.attach(), JAL_OK);
  const Client::Answer answer = client.ask(JAL_MAILBOX_ECHO, {1, 2, 3, 4, 5, 6, 7});
  EXPECT_EQ(answer.status, JAL_OK);
  for (std::uint64_t i = 0; i < 7; ++i) EXPECT_EQ(answer.word[i], i + 1);
  client.region().request.word[0] = 99;  // no new sequence: nothing is asked
  EXPECT_EQ(fw.control->step(), StepResult::idle);
  EXPECT_EQ(client.region().response.word[0], 1u);
  EXPECT_EQ(client.ask(12345).status, JAL_ERROR_UNIMPLEMENTED);
}

TEST_F(Session, QueueCreationChecksEveryWord) {
  Client client(fw, 0);
  ASSERT_EQ(client.attach(), JAL_OK);
  const std::uint64_t ring = Client::ring_offset(0), arguments = Client::argument_offset(0);
  const std::uint64_t end = fw.board.regions.at(0).size() * 8;
  const auto create = [&](std::initializer_list<std::uint64_t> words) {
    return client.ask(JAL_MAILBOX_QUEUE_CREATE, words).status;
  };
  EXPECT_EQ(create({JAL_QUEUES_PER_CLIENT, ring, 4, arguments, 8192}), JAL_ERROR_QUEUE_LIMIT);
  EXPECT_EQ(create({0, ring, 3, arguments, 8192}), JAL_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(create({0, ring, 13, arguments, 8192}), JAL_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(create({0, ring, 1ull << 40, arguments, 8192}), JAL_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(create({0, ring, 4, arguments, 8191}), JAL_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(create({0, ring, 4, arguments, 2048}), JAL_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(create({0, ring, 4, arguments, 8192, 1}), JAL_ERROR_RESERVED_NOT_ZERO);
  EXPECT_EQ(create({0, ring + 8, 4, arguments, 8192}), JAL_ERROR_UNALIGNED_ADDRESS);
  EXPECT_EQ(create({0, ring, 4, arguments + 1, 8192}), JAL_ERROR_UNALIGNED_ADDRESS);
  EXPECT_EQ(create({0, 0, 4, arguments, 8192}), JAL_ERROR_BAD_ADDRESS) << "the head of the region is no ring";
  EXPECT_EQ(create({0, end - 512, 4, arguments, 8192}), JAL_ERROR_BAD_ADDRESS);
  EXPECT_EQ(create({0, ring, 4, ~63ull, 8192}), JAL_ERROR_BAD_ADDRESS);
  EXPECT_EQ(create({0, ring, 4, arguments, 1ull << 63}), JAL_ERROR_BAD_ADDRESS);
  EXPECT_EQ(fw.tag(JAL_TAG_QUEUES), 0u);
  EXPECT_EQ(client.create_queue(0), JAL_OK);
  EXPECT_EQ(client.create_queue(0), JAL_ERROR_BUSY);
  EXPECT_EQ(fw.tag(JAL_TAG_QUEUES), 1u);
  EXPECT_EQ(client.ask(JAL_MAILBOX_QUEUE_DESTROY, {5}).status, JAL_ERROR_INVALID_HANDLE);
  EXPECT_EQ(client.ask(JAL_MAILBOX_QUEUE_DESTROY, {1ull << 32}).status, JAL_ERROR_INVALID_HANDLE);
  EXPECT_EQ(client.ask(JAL_MAILBOX_QUEUE_RECOVER, {1}).status, JAL_ERROR_INVALID_HANDLE);
  EXPECT_EQ(client.ask(JAL_MAILBOX_QUEUE_DESTROY, {0}).status, JAL_OK);
  EXPECT_EQ(client.create_queue(0), JAL_OK);
  EXPECT_EQ(client.control().epoch, 2u) << "a queue of the same number is another one";
}

TEST_F(Session, PagesAreChecked) {
  Client client(fw, 0);
  ASSERT_EQ(client.attach(), JAL_OK);
  const auto alloc = [&](std::initializer_list<std::uint64_t> words) {
    return client.ask(JAL_MAILBOX_PAGES_ALLOC, words);
  };
  EXPECT_EQ(alloc({0, 1, 64}).status, JAL_ERROR_BAD_SLICE_MASK);
  EXPECT_EQ(alloc({0x10, 1, 64}).status, JAL_ERROR_BAD_SLICE_MASK);
  EXPECT_EQ(alloc({1, 1, 64, 1}).status, JAL_ERROR_RESERVED_NOT_ZERO);
  EXPECT_EQ(alloc({1, 0, 64}).status, JAL_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(alloc({1, 1, 63}).status, JAL_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(alloc({1, 1, JAL_PAGE_BYTES + 64}).status, JAL_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(alloc({1, 2, 64}).status, JAL_ERROR_INVALID_ARGUMENT) << "more pages than the bytes need";
  EXPECT_EQ(alloc({1, 1ull << 33, ~63ull}).status, JAL_ERROR_INVALID_ARGUMENT);

  // One slice is full while the others are free: the answer names it and what it has.
  std::uint64_t id = 0;
  (void)client.alloc(0b0100, 15 * JAL_PAGE_BYTES, &id);
  const Client::Answer full = alloc({0b1111, 2, 2 * JAL_PAGE_BYTES});
  EXPECT_EQ(full.status, JAL_ERROR_OUT_OF_DEVICE_MEMORY);
  EXPECT_EQ(full.word[0], 2u);
  EXPECT_EQ(full.word[1], 1u);
  EXPECT_EQ(full.word[2], 1u);
  EXPECT_EQ(full.word[3], kPages);

  Client other(fw, 1);
  ASSERT_EQ(other.attach(), JAL_OK);
  EXPECT_EQ(other.ask(JAL_MAILBOX_PAGES_FREE, {id}).status, JAL_ERROR_STALE_HANDLE) << "another client's";
  EXPECT_EQ(client.ask(JAL_MAILBOX_PAGES_FREE, {id}).status, JAL_OK);
  EXPECT_EQ(client.ask(JAL_MAILBOX_PAGES_FREE, {id}).status, JAL_ERROR_STALE_HANDLE) << "freed twice";
  EXPECT_EQ(client.ask(JAL_MAILBOX_PAGES_FREE, {0}).status, JAL_ERROR_STALE_HANDLE);
  EXPECT_EQ(client.ask(JAL_MAILBOX_PAGES_QUERY, {4}).status, JAL_ERROR_BAD_SLICE_MASK);

  fw.board.budget = 100;
  const Client::Answer poor = alloc({0b1111, 1, 64});
  EXPECT_EQ(poor.status, JAL_ERROR_HOST_BUDGET);
  EXPECT_EQ(poor.word[0], 100u);
  EXPECT_EQ(client.ask(JAL_MAILBOX_PAGES_QUERY, {0}).word[0], kPages) << "a refused request takes nothing";
}

/// Random grants and frees of several clients against a plain model of who holds which page.
TEST_F(Session, PageOwnershipAgreesWithAModel) {
  std::mt19937_64 draw(7);
  struct Held {
    std::uint32_t client;
    std::uint64_t id, mask, first, pages;
  };
  std::vector<Held> held;
  std::vector<std::vector<int>> owner(4, std::vector<int>(kPages, -1));
  std::vector<std::unique_ptr<Client>> clients;
  for (std::uint32_t c = 0; c < 3; ++c) {
    clients.push_back(std::make_unique<Client>(fw, c));
    ASSERT_EQ(clients.back()->attach(), JAL_OK);
  }
  for (int round = 0; round < 3000; ++round) {
    const auto c = static_cast<std::uint32_t>(draw() % 3);
    if (draw() % 2 == 0 && !held.empty()) {
      const std::size_t i = draw() % held.size();
      const Held h = held[i];
      ASSERT_EQ(clients[h.client]->ask(JAL_MAILBOX_PAGES_FREE, {h.id}).status, JAL_OK);
      for (std::uint64_t s = 0; s < 4; ++s) {
        for (std::uint64_t p = h.first; (h.mask >> s & 1) != 0 && p < h.first + h.pages; ++p) owner[s][p] = -1;
      }
      held.erase(held.begin() + static_cast<std::ptrdiff_t>(i));
    } else {
      const std::uint64_t mask = draw() % 15 + 1, pages = draw() % 5 + 1;
      const Client::Answer answer =
          clients[c]->ask(JAL_MAILBOX_PAGES_ALLOC, {mask, pages, pages * JAL_PAGE_BYTES - 64});
      bool fits = false;
      for (std::uint64_t first = 0; first + pages <= kPages; ++first) {
        bool is_free = true;
        for (std::uint64_t s = 0; s < 4; ++s) {
          for (std::uint64_t p = first; (mask >> s & 1) != 0 && p < first + pages; ++p)
            is_free = is_free && owner[s][p] < 0;
        }
        fits = fits || is_free;
      }
      ASSERT_EQ(answer.status, fits ? JAL_OK : JAL_ERROR_OUT_OF_DEVICE_MEMORY) << round;
      if (!fits) continue;
      const std::uint64_t first = answer.word[0] / JAL_PAGE_BYTES;
      for (std::uint64_t s = 0; s < 4; ++s) {
        for (std::uint64_t p = first; (mask >> s & 1) != 0 && p < first + pages; ++p) {
          ASSERT_LT(p, kPages);
          ASSERT_EQ(owner[s][p], -1) << "granted twice";
          owner[s][p] = static_cast<int>(c);
        }
      }
      held.push_back({c, answer.word[1], mask, first, pages});
    }
    const std::uint64_t s = draw() % 4;
    const Client::Answer pages = clients[c]->ask(JAL_MAILBOX_PAGES_QUERY, {s});
    ASSERT_EQ(pages.word[0], static_cast<std::uint64_t>(std::count(owner[s].begin(), owner[s].end(), -1)));
    ASSERT_EQ(pages.word[1],
              static_cast<std::uint64_t>(std::count(owner[s].begin(), owner[s].end(), static_cast<int>(c))));
    ASSERT_EQ(fw.board.extents.size(), held.size());
  }
  // A client that leaves gives everything back, and only its own.
  const auto kept = std::count_if(held.begin(), held.end(), [](const Held& h) { return h.client != 1; });
  fw.control->detach(1);
  EXPECT_EQ(fw.board.extents.size(), static_cast<std::size_t>(kept));
  fw.control->detach(0);
  fw.control->detach(2);
  EXPECT_TRUE(fw.board.extents.empty());
  EXPECT_EQ(fw.board.charged, 0u);
  EXPECT_EQ(fw.tag(JAL_TAG_HBM_USED), 0u);
}

TEST_F(Session, ModulesAreCheckedWholeOrRefused) {
  Client client(fw, 0), stranger(fw, 1, 0);
  ASSERT_EQ(client.attach(), JAL_OK);
  ASSERT_EQ(stranger.attach(), JAL_OK);
  const std::string file = module_file();
  ASSERT_GT(file.size(), 1000u);
  const auto load = [&](Client& who, const std::string& bytes) {
    return who.ask(JAL_MAILBOX_MODULE_LOAD, {host(bytes.data()), bytes.size()});
  };
  EXPECT_EQ(load(stranger, file).status, JAL_ERROR_BAD_ADDRESS) << "host addresses were not agreed on";
  EXPECT_EQ(client.ask(JAL_MAILBOX_MODULE_LOAD, {JAL_ADDRESS_HBM(0, 0), 64}).status, JAL_ERROR_BAD_ADDRESS);
  for (const std::size_t size : {std::size_t{1}, std::size_t{63}, std::size_t{200}, file.size() / 2, file.size() - 1}) {
    const Client::Answer answer = load(client, file.substr(0, size));
    EXPECT_EQ(answer.status, JAL_ERROR_BAD_MODULE) << size;
    EXPECT_NE(client.record(answer.word[0]).text[0], '\0') << "a refusal has its reason";
  }
  // Any flipped bit is found: the file carries its hash. In heap blocks of the exact size, so that a sanitizer sees an
  // overrun.
  for (std::size_t i = 0; i < file.size(); i += i < 512 ? 1 : 97) {
    std::string bad = file;
    bad[i] = static_cast<char>(bad[i] ^ 0x20);
    EXPECT_EQ(load(client, bad).status, JAL_ERROR_BAD_MODULE) << "byte " << i;
  }
  EXPECT_TRUE(fw.board.codes.empty());
  fw.board.code_status = JAL_ERROR_MODULE_LOAD;
  EXPECT_EQ(load(client, file).status, JAL_ERROR_MODULE_LOAD);
  fw.board.code_status = 0;
  std::vector<std::uint64_t> ids;
  for (;;) {
    const Client::Answer answer = load(client, file);
    if (answer.status != JAL_OK) {
      EXPECT_EQ(answer.status, JAL_ERROR_MODULE_LIMIT);
      break;
    }
    ids.push_back(answer.word[0]);
    ASSERT_LE(ids.size(), 1000u);
  }
  EXPECT_EQ(fw.board.codes.size(), ids.size());
  EXPECT_EQ(stranger.ask(JAL_MAILBOX_MODULE_UNLOAD, {ids[0]}).status, JAL_ERROR_INVALID_HANDLE);
  EXPECT_EQ(client.ask(JAL_MAILBOX_MODULE_UNLOAD, {ids[0]}).status, JAL_OK);
  EXPECT_EQ(client.ask(JAL_MAILBOX_MODULE_UNLOAD, {ids[0]}).status, JAL_ERROR_INVALID_HANDLE);
  EXPECT_EQ(client.ask(JAL_MAILBOX_MODULE_UNLOAD, {0}).status, JAL_ERROR_INVALID_HANDLE);
  EXPECT_EQ(client.ask(JAL_MAILBOX_MODULE_UNLOAD, {1ull << 32 | ids[1]}).status, JAL_ERROR_INVALID_HANDLE);
  fw.control->detach(0);
  EXPECT_TRUE(fw.board.codes.empty());
}

TEST_F(Session, LogRingKeepsTheNewest) {
  Client client(fw, 0);
  ASSERT_EQ(client.attach(), JAL_OK);
  for (std::uint32_t i = 0; i < JAL_LOG_ENTRIES; ++i) {
    ASSERT_EQ(client.create_queue(0), JAL_OK);
    ASSERT_EQ(client.ask(JAL_MAILBOX_QUEUE_DESTROY, {0}).status, JAL_OK);
  }
  EXPECT_GT(fw.board.log.written, 2 * JAL_LOG_ENTRIES);
  EXPECT_EQ(fw.board.log.entry[(fw.board.log.written - 1) % JAL_LOG_ENTRIES].id, JAL_LOG_QUEUE_DESTROYED);
}

TEST_F(Session, TelemetrySequenceIsEvenAndMovesWithEachChange) {
  Client client(fw, 0);
  ASSERT_EQ(client.attach(), JAL_OK);
  const std::uint64_t before = fw.board.telemetry.sequence;
  EXPECT_EQ(before % 2, 0u);
  (void)client.alloc(1, 64);
  EXPECT_GT(fw.board.telemetry.sequence, before);
  EXPECT_EQ(fw.board.telemetry.sequence % 2, 0u);
  const std::uint64_t after = fw.board.telemetry.sequence;
  EXPECT_EQ(fw.control->step(), StepResult::idle);
  EXPECT_EQ(fw.board.telemetry.sequence, after) << "nothing changed, nothing is written";
  EXPECT_LE(fw.board.telemetry.count, JAL_TELEMETRY_ENTRIES);
}

}  // namespace
}  // namespace jal::fw::test
