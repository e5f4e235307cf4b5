// What observers read: the telemetry page, through the driver's own reader, and the log ring.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <sys/mman.h>
#include <unistd.h>

#include <filesystem>
#include <set>

#include "driver/telemetry_reader.hpp"
#include "tests/unit/firmware/control/fake_board.hpp"

namespace jal::fw {
namespace {

/// A telemetry file of one device, mapped for the firmware, open for a reader.
class File {
 public:
  File() {
    char name[] = "/tmp/jal-telemetry-XXXXXX";
    const int fd = mkstemp(name);
    path_ = name;
    EXPECT_EQ(ftruncate(fd, kPage + JAL_TELEMETRY_PAGE_BYTES), 0);
    memory_ = static_cast<std::uint8_t*>(
        mmap(nullptr, kPage + JAL_TELEMETRY_PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0));
    close(fd);
    jal_telemetry_head head = {};
    head.magic = JAL_TELEMETRY_MAGIC;
    head.version = JAL_TELEMETRY_VERSION;
    head.device_count = 1;
    head.device_offset = kPage;
    std::memcpy(memory_, &head, sizeof head);
  }
  ~File() {
    munmap(memory_, kPage + JAL_TELEMETRY_PAGE_BYTES);
    std::filesystem::remove(path_);
  }
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  jal_telemetry_page* page() { return reinterpret_cast<jal_telemetry_page*>(memory_ + kPage); }
  const std::string& path() const { return path_; }

 private:
  static constexpr std::uint32_t kPage = 4096;
  std::string path_;
  std::uint8_t* memory_;
};

TEST(Telemetry, AReaderInTheMiddleOfAnUpdateSeesItTornAndWholeAfterwards) {
  File file;
  Chip chip(false);
  chip.board.telemetry = file.page();
  chip.control().boot();
  auto reader = drv::TelemetryFile::open(file.path());
  ASSERT_TRUE(reader.ok());
  jal_telemetry_page page;
  ASSERT_TRUE(reader->read(0, &page).ok());
  EXPECT_EQ(drv::find_value(page, JAL_TAG_CLIENTS), 0u);
  const std::uint64_t before = page.sequence;

  std::int32_t during = JAL_OK;
  std::uint64_t sequence = 0;
  chip.board.on_clock = [&] {  // the firmware stands between its two writes of the sequence
    sequence = chip.board.telemetry->sequence;
    jal_telemetry_page torn;
    during = reader->read(0, &torn).code();
  };
  Client client(chip, 0);
  ASSERT_EQ(client.attach(), JAL_OK);
  chip.board.on_clock = nullptr;
  EXPECT_EQ(sequence, before + 1) << "odd while it is written";
  EXPECT_EQ(during, JAL_ERROR_BAD_TELEMETRY);
  ASSERT_TRUE(reader->read(0, &page).ok()) << "the next try finds it whole";
  EXPECT_EQ(page.sequence, before + 2);
  EXPECT_EQ(drv::find_value(page, JAL_TAG_CLIENTS), 1u);
}

TEST(Telemetry, EveryTagOfTheContractIsPublishedOnceForEachIndex) {
  const Chip chip;
  std::set<std::pair<std::uint32_t, std::uint32_t>> found;
  for (std::uint32_t i = 0; i < chip.board.telemetry->count; ++i) {
    const jal_telemetry_entry& entry = chip.board.telemetry->entry[i];
    EXPECT_TRUE(found.insert({entry.tag, entry.index}).second) << entry.tag << " twice";
  }
#define JAL_EXPECT_TAG(name, tag, index, unit, meaning)                                           \
  {                                                                                               \
    const std::string by = index;                                                                 \
    const std::uint32_t count = by == "unit"    ? JAL_UNIT_COUNT                                  \
                                : by == "phase" ? JAL_PHASE_COUNT                                 \
                                : by == "half"  ? 2                                               \
                                                : 1;                                               \
    for (std::uint32_t i = 0; i < count; ++i) EXPECT_EQ(found.erase({tag, i}), 1u) << #name << i; \
  }
  JAL_TELEMETRY_LIST(JAL_EXPECT_TAG)
#undef JAL_EXPECT_TAG
  EXPECT_TRUE(found.empty()) << "a tag that the contract does not list: " << found.begin()->first;
}

TEST(Telemetry, AnIdlePageDoesNotMove) {
  Chip chip;
  Client client(chip, 0);
  ASSERT_EQ(client.attach(), JAL_OK);
  ASSERT_EQ(client.create_queue(), JAL_OK);
  const jal_telemetry_page before = *chip.board.telemetry;
  chip.board.unix_ns += 1000000;
  for (int step = 0; step < 100; ++step) EXPECT_EQ(chip.control().step(), StepResult::idle);
  EXPECT_EQ(std::memcmp(&before, chip.board.telemetry, sizeof before), 0);
  ASSERT_EQ(client.ask(JAL_MAILBOX_ECHO, {}), JAL_OK);
  EXPECT_GT(chip.telemetry(JAL_TAG_HEARTBEAT), 0u);
  EXPECT_EQ(chip.board.telemetry->sequence, before.sequence + 2);
  EXPECT_EQ(chip.board.telemetry->update_unix_ns, chip.board.unix_ns);
}

TEST(Log, TellsASessionsLifeWithLevelsOfTheList) {
  Chip chip;
  const std::uint64_t booted = chip.board.log.written;
  {
    Client client(chip, 4);
    ASSERT_EQ(client.attach(), JAL_OK);
    ASSERT_EQ(client.create_queue(2), JAL_OK);
    client.allocate(0b11, 2);
    ASSERT_EQ(client.ask(JAL_MAILBOX_PAGES_ALLOC, {1, 1000, 1000 * std::uint64_t{JAL_PAGE_BYTES}}),
              JAL_ERROR_OUT_OF_DEVICE_MEMORY);
    ASSERT_EQ(client.run(77, {}, 2), JAL_ERROR_BAD_PACKET);
    const std::vector<std::uint8_t> file = make_module({make_kernel("k")});
    ASSERT_EQ(client.ask(JAL_MAILBOX_MODULE_LOAD, {host_address(file.data()), file.size()}), JAL_OK);
    ASSERT_EQ(client.ask(JAL_MAILBOX_MODULE_LOAD, {host_address(file.data()), 7}), JAL_ERROR_BAD_MODULE);
    ASSERT_EQ(client.ask(JAL_MAILBOX_PAGES_FREE, {client.reservation}), JAL_OK);
    ASSERT_EQ(client.ask(JAL_MAILBOX_QUEUE_DESTROY, {2}), JAL_OK);
    client.allocate(0b101, 3);
  }
  const std::uint32_t expected[] = {JAL_LOG_CLIENT_ATTACHED, JAL_LOG_QUEUE_CREATED,  JAL_LOG_PAGES_GRANTED,
                                    JAL_LOG_PAGES_REFUSED,   JAL_LOG_QUEUE_POISONED, JAL_LOG_QUEUE_RECOVERED,
                                    JAL_LOG_MODULE_LOADED,   JAL_LOG_MODULE_REFUSED, JAL_LOG_PAGES_FREED,
                                    JAL_LOG_QUEUE_DESTROYED, JAL_LOG_PAGES_GRANTED,  JAL_LOG_CLIENT_DETACHED};
  ASSERT_EQ(chip.board.log.written - booted, std::size(expected));
  std::uint64_t time = 0;
  for (std::size_t i = 0; i < std::size(expected); ++i) {
    const jal_log_entry& entry = chip.board.log.entry[booted + i];
    EXPECT_EQ(entry.id, expected[i]) << i;
    EXPECT_EQ(entry.word[0], 4u) << "the client";
    EXPECT_GE(entry.time_ps, time);
    time = entry.time_ps;
#define JAL_EXPECT_LEVEL(name, number, list_level, format) \
  if (entry.id == number) level = list_level;
    std::uint32_t level = 0;
    JAL_LOG_LIST(JAL_EXPECT_LEVEL)
#undef JAL_EXPECT_LEVEL
    EXPECT_EQ(entry.level, level) << entry.id;
  }
  EXPECT_EQ(chip.board.log.entry[booted + std::size(expected) - 1].word[1], 6u)
      << "3 pages in each of 2 slices came back";
}

TEST(Log, AReaderThatFellBehindSeesTheGapInTheNumbers) {
  Chip chip;
  Client client(chip, 0);
  ASSERT_EQ(client.attach(), JAL_OK);
  std::uint64_t read = chip.board.log.written;
  // Each entry carries a number of its own: the queue's index counts up.
  std::uint64_t written = 0;
  while (written < JAL_LOG_ENTRIES + 10) {
    ASSERT_EQ(client.ask(JAL_MAILBOX_PAGES_ALLOC, {1, 1000 + written, (1000 + written) * JAL_PAGE_BYTES}),
              JAL_ERROR_OUT_OF_DEVICE_MEMORY);
    ++written;
  }
  ASSERT_EQ(chip.board.log.written, read + written);
  const std::uint64_t oldest = chip.board.log.written - JAL_LOG_ENTRIES;
  EXPECT_EQ(oldest - read, 10u) << "lost";
  for (read = oldest; read < chip.board.log.written; ++read) {
    EXPECT_EQ(chip.board.log.entry[read % JAL_LOG_ENTRIES].word[1], 1000 + 10 + (read - oldest));
  }
}

}  // namespace
}  // namespace jal::fw
