// libjal-emulator.so end to end, spoken to by hand: handshake, memory, copies, events, errors, telemetry, idleness.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <jal/abi/telemetry.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>

#include <fstream>
#include <map>
#include <numeric>
#include <sstream>
#include <vector>

#include "tests/unit/emulator/instance/raw_client.hpp"

namespace jal::emu {
namespace {

using ::testing::HasSubstr;

constexpr std::uint64_t kPage = JAL_PAGE_BYTES;

std::vector<unsigned char> counting(std::size_t bytes) {
  std::vector<unsigned char> data(bytes);
  for (std::size_t i = 0; i < bytes; ++i) data[i] = static_cast<unsigned char>(i * 7 + i / 251);
  return data;
}

class InstanceTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_EQ(farm.status, JAL_OK) << farm.error;
    ASSERT_EQ(client.attach(farm.instance), JAL_OK) << client.error;
    ASSERT_EQ(client.create_queue(), JAL_OK);
  }

  /// Telemetry of device 0 as an observer reads it: from the file.
  std::map<std::pair<std::uint32_t, std::uint32_t>, std::uint64_t> telemetry() const {
    std::ifstream file(emulator_api()->telemetry_path(farm.instance), std::ios::binary);
    jal_telemetry_head head{};
    file.read(reinterpret_cast<char*>(&head), sizeof head);
    EXPECT_EQ(head.magic, JAL_TELEMETRY_MAGIC);
    jal_telemetry_page page{};
    file.seekg(head.device_offset);
    file.read(reinterpret_cast<char*>(&page), sizeof page);
    EXPECT_EQ(page.sequence % 2, 0u);
    EXPECT_GT(page.count, 20u);
    EXPECT_LE(page.count, JAL_TELEMETRY_ENTRIES);
    std::map<std::pair<std::uint32_t, std::uint32_t>, std::uint64_t> values;
    for (std::uint32_t i = 0; i < page.count; ++i)
      values[{page.entry[i].tag, page.entry[i].index}] = page.entry[i].value;
    return values;
  }
  std::uint64_t allocate(std::uint64_t mask, std::uint64_t bytes) {
    std::uint64_t offset = 0;
    EXPECT_EQ(client.allocate(mask, bytes, &offset, &reservation), JAL_OK);
    return offset;
  }

  RawInstance farm;
  RawClient client;
  std::uint64_t reservation = 0;
};

TEST(InstanceApi, UnknownVersionIsRefused) {
  EXPECT_EQ(emulator_api(JAL_INSTANCE_API_VERSION + 1), nullptr);
  ASSERT_NE(emulator_api(), nullptr);
  EXPECT_EQ(emulator_api()->struct_size, sizeof(jal_instance_api));
}

TEST(InstanceApi, BadOptionsAndModelsAreNamed) {
  jal_instance_options options = {};
  options.model = "no-such-chip";
  const RawInstance none(options);
  EXPECT_EQ(none.status, JAL_ERROR_BAD_MODEL_FILE);
  EXPECT_THAT(none.error, HasSubstr("no-such-chip"));
  EXPECT_TRUE(std::filesystem::is_empty(none.dir)) << "a failed open leaves files";
  options.model = nullptr;
  options.device_count = 99;
  EXPECT_EQ(RawInstance(options).status, JAL_ERROR_INVALID_ARGUMENT);
}

TEST(InstanceApi, EightDevicesOfTheFullChip) {
  jal_instance_options options = {};
  options.model = "jal1-a0";
  options.device_count = 8;
  RawInstance farm(options);
  ASSERT_EQ(farm.status, JAL_OK) << farm.error;
  EXPECT_EQ(emulator_api()->device_count(farm.instance), 8u);
  std::vector<std::uint64_t> identities;
  for (std::uint32_t device = 0; device < 8; ++device) {
    RawClient client;
    ASSERT_EQ(client.attach(farm.instance, device), JAL_OK) << client.error;
    const jal_chip_info& chip = client.region().chip;
    EXPECT_STREQ(chip.model, "jal1-a0");
    EXPECT_EQ(chip.cores, 64u);
    EXPECT_EQ(chip.slices, 64u);
    EXPECT_EQ(chip.chip_bytes, 216ull << 30);
    EXPECT_EQ(chip.slice_bytes * 64 + chip.reserved_bytes, chip.chip_bytes);
    EXPECT_EQ(chip.device_index, device);
    EXPECT_EQ((chip.uuid[0] >> 12) & 0xf, 4u) << "version 4";
    EXPECT_EQ(chip.uuid[1] >> 62, 2u);
    identities.push_back(chip.uuid[1]);
    EXPECT_EQ(client.region().post_code, JAL_POST_READY);
  }
  std::sort(identities.begin(), identities.end());
  EXPECT_EQ(std::unique(identities.begin(), identities.end()), identities.end());
  RawClient ninth;
  EXPECT_EQ(ninth.attach(farm.instance, 8), JAL_ERROR_NO_DEVICE);
  EXPECT_THAT(ninth.error, HasSubstr("JAL_DEVICES"));
}

TEST_F(InstanceTest, HandshakeAgreesOnTheHighestCommonVersion) {
  EXPECT_EQ(client.region().device.magic, JAL_DEVICE_MAGIC);
  EXPECT_EQ(client.region().device.abi_agreed, JAL_ABI_VERSION_MAX);
  EXPECT_EQ(client.region().device.status, JAL_OK);
  EXPECT_NE(client.region().device.features & JAL_FEATURE_HOST_VA, 0u);
  EXPECT_NE(client.region().device.features & JAL_FEATURE_EMULATED, 0u);
  ASSERT_EQ(client.mailbox(JAL_MAILBOX_ECHO, {1, 2, 3}), JAL_OK);
  EXPECT_EQ(client.result[2], 3u);
}

TEST_F(InstanceTest, OtherVersionsAreRefusedWithBothRanges) {
  RawClient newer, older;
  newer.region().client.abi_min = newer.region().client.abi_max = 9;
  EXPECT_EQ(newer.attach(farm.instance), JAL_ERROR_ABI_TOO_OLD);
  EXPECT_THAT(newer.error, HasSubstr("9..9"));
  EXPECT_THAT(newer.error, HasSubstr("1..1"));
  older.region().client.abi_min = older.region().client.abi_max = 0;
  const jal_status_t status = older.attach(farm.instance);
  EXPECT_TRUE(status == JAL_ERROR_ABI_TOO_NEW || status == JAL_ERROR_HANDSHAKE_REFUSED) << status;
  EXPECT_THAT(older.error, HasSubstr("0..0"));
}

TEST_F(InstanceTest, UnfitRegionIsRefused) {
  jal_attachment* attachment = nullptr;
  char text[256] = "";
  EXPECT_EQ(emulator_api()->attach(farm.instance, 0, nullptr, 1 << 20, &attachment, text, sizeof text),
            JAL_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(emulator_api()->attach(farm.instance, 0, &client.region(), 4096, &attachment, text, sizeof text),
            JAL_ERROR_INVALID_ARGUMENT);
  EXPECT_THAT(text, HasSubstr("4096 bytes"));
  EXPECT_EQ(attachment, nullptr);
}

TEST_F(InstanceTest, HostToHbmToHost) {
  const auto in = counting(100000);
  std::vector<unsigned char> out(in.size());
  const std::uint64_t offset = allocate(0b0100, 100032);
  client.copy(JAL_ADDRESS_HBM(2, offset), RawClient::host(in.data()), in.size(), 0, 1, 1);
  client.copy(RawClient::host(out.data()), JAL_ADDRESS_HBM(2, offset), in.size(), 0, 1, 2);
  ASSERT_TRUE(client.wait(1, 2));
  const jal_event_mirror& event = client.region().events[1];
  EXPECT_EQ(event.status, JAL_OK);
  EXPECT_EQ(in, out);
  EXPECT_GT(event.end_ps, event.start_ps);
  double link = 0;
  ASSERT_EQ(emulator_api()->model_value(farm.instance, "rate.host_link", &link, nullptr, nullptr), JAL_OK);
  EXPECT_GE(event.end_ps - event.start_ps, static_cast<std::uint64_t>(100000 / link * 1000));
}

TEST_F(InstanceTest, ShardedCopyIsWhatTheSlicesHold) {
  const auto in = counting(4 * 8192);
  std::vector<unsigned char> out(8192);
  const std::uint64_t offset = allocate(0b1111, 8192);
  client.copy(JAL_ADDRESS_HBM(0, offset), RawClient::host(in.data()), 8192, 0b1111, 1, 1);
  client.copy(RawClient::host(out.data()), JAL_ADDRESS_HBM(3, offset), 8192, 0, 1, 2);
  ASSERT_TRUE(client.wait(1, 2));
  EXPECT_EQ(std::memcmp(out.data(), in.data() + 3 * 8192, 8192), 0);
}

TEST_F(InstanceTest, FillTimestampAndIdle) {
  const std::uint64_t offset = allocate(0b11, kPage);
  const jal_fill_payload fill = {0xdeadbeef, JAL_ADDRESS_HBM(0, offset), kPage, 0b11, 0};
  jal_packet packet = {};
  packet.signal_event = 1;
  packet.signal_value = 1;
  jal_fill_payload_encode(&fill, &packet);
  client.submit(packet, JAL_PACKET_FILL);
  std::vector<std::uint32_t> out(kPage / 4);
  client.copy(RawClient::host(out.data()), JAL_ADDRESS_HBM(1, offset), kPage, 0, 1, 2);
  const jal_idle_payload idle = {0, 1'000'000, {}};
  packet = {};
  packet.signal_event = 1;
  packet.signal_value = 3;
  jal_idle_payload_encode(&idle, &packet);
  client.submit(packet, JAL_PACKET_IDLE);
  packet = {};
  packet.signal_event = 2;
  packet.signal_value = 1;
  client.submit(packet, JAL_PACKET_TIMESTAMP);
  ASSERT_TRUE(client.wait(1, 2));
  const std::uint64_t copied = client.region().events[1].end_ps;
  ASSERT_TRUE(client.wait(2, 1));
  EXPECT_EQ(out.front(), 0xdeadbeefu);
  EXPECT_EQ(out.back(), 0xdeadbeefu);
  EXPECT_GE(client.region().events[2].end_ps, copied + 1'000'000'000u) << "a millisecond passed";
  EXPECT_LT(client.region().events[2].end_ps, copied + 1'100'000'000u);
}

TEST_F(InstanceTest, RingWrapsAround) {
  const std::uint64_t offset = allocate(1, 64);
  std::uint64_t in = 0, out = 0;
  for (std::uint64_t round = 1; round <= 5 * RawClient::kDepth; ++round) {
    in = round * 0x0101010101010101u;
    client.copy(JAL_ADDRESS_HBM(0, offset), RawClient::host(&in), 8, 0, 1, 2 * round - 1);
    client.copy(RawClient::host(&out), JAL_ADDRESS_HBM(0, offset), 8, 0, 1, 2 * round);
    ASSERT_TRUE(client.wait(1, 2 * round)) << round;
    ASSERT_EQ(out, in);
  }
}

TEST_F(InstanceTest, StreamsWaitForEachOthersEvents) {
  ASSERT_EQ(client.create_queue(1), JAL_OK);
  const std::uint64_t offset = allocate(1, 64);
  std::uint64_t in = 77, out = 0;
  const jal_copy_payload payload = {0, RawClient::host(&out), JAL_ADDRESS_HBM(0, offset), 8, 0};
  jal_packet packet = {};
  packet.wait_event = 3;
  packet.wait_value = 5;
  packet.signal_event = 4;
  packet.signal_value = 1;
  jal_copy_payload_encode(&payload, &packet);
  client.submit(packet, JAL_PACKET_COPY, 1);
  for (int i = 0; i < 100; ++i) client.step();
  EXPECT_EQ(client.region().events[4].value, 0u);
  client.copy(JAL_ADDRESS_HBM(0, offset), RawClient::host(&in), 8, 0, 3, 5);
  ASSERT_TRUE(client.wait(4, 1));
  EXPECT_EQ(out, 77u);
}

TEST_F(InstanceTest, OutOfBoundsCopyPoisonsAndNamesTheAllocation) {
  const std::uint64_t offset = allocate(0b0010, 4096);
  std::vector<unsigned char> host(8192);
  client.copy(JAL_ADDRESS_HBM(1, offset), RawClient::host(host.data()), 8192, 0, 1, 1);
  ASSERT_TRUE(client.wait(1, 1));
  const jal_event_mirror& event = client.region().events[1];
  EXPECT_EQ(event.value, JAL_EVENT_POISONED);
  EXPECT_EQ(event.status, JAL_ERROR_BAD_ADDRESS);
  ASSERT_NE(event.record, 0u);
  const jal_error_record& record = client.region().records[(event.record - 1) % JAL_ERROR_RECORDS];
  EXPECT_EQ(record.status, JAL_ERROR_BAD_ADDRESS);
  EXPECT_EQ(record.packet_type, JAL_PACKET_COPY);
  EXPECT_EQ(record.near_base, JAL_ADDRESS_HBM(1, offset));
  EXPECT_GT(std::string(record.text).size(), 20u);
  EXPECT_EQ(client.region().queues[0].state, JAL_QUEUE_STATE_POISONED);
  ASSERT_EQ(client.mailbox(JAL_MAILBOX_QUEUE_RECOVER, {0}), JAL_OK);
  client.copy(JAL_ADDRESS_HBM(1, offset), RawClient::host(host.data()), 4096, 0, 2, 1);
  ASSERT_TRUE(client.wait(2, 1));
  EXPECT_EQ(client.region().events[2].status, JAL_OK);
}

TEST_F(InstanceTest, TelemetryFileTellsClockEnergyAndBytes) {
  const auto before = telemetry();
  EXPECT_EQ(before.at({JAL_TAG_STATE, 0}), JAL_DEVICE_STATE_OK);
  EXPECT_EQ(before.at({JAL_TAG_HBM_USABLE, 0}), 4ull * (64 << 20));
  const std::uint64_t offset = allocate(0b1111, 1 << 20);
  std::vector<unsigned char> host(4 << 20);
  client.copy(JAL_ADDRESS_HBM(0, offset), RawClient::host(host.data()), 1 << 20, 0b1111, 1, 1);
  ASSERT_TRUE(client.wait(1, 1));
  while (client.step() == JAL_STEP_WORKED) {
  }
  const auto after = telemetry();
  EXPECT_EQ(after.at({JAL_TAG_HBM_USED, 0}), 4u << 20);
  EXPECT_EQ(after.at({JAL_TAG_BYTES_HOST, 0}) - before.at({JAL_TAG_BYTES_HOST, 0}), 4u << 20);
  EXPECT_EQ(after.at({JAL_TAG_CLOCK_PS, 0}), client.region().events[1].end_ps);
  EXPECT_EQ(after.at({JAL_TAG_PENDING, 0}), 0u);
  EXPECT_EQ(after.at({JAL_TAG_CLIENTS, 0}), 1u);
  // The package's energy is the sum of its units': static power over the time, and the copy's own.
  std::uint64_t units = 0;
  for (std::uint32_t unit = 0; unit < JAL_UNIT_COUNT; ++unit) units += after.at({JAL_TAG_UNIT_ENERGY_NJ, unit});
  EXPECT_NEAR(static_cast<double>(after.at({JAL_TAG_ENERGY_NJ, 0})), static_cast<double>(units), JAL_UNIT_COUNT);
  const double seconds = static_cast<double>(after.at({JAL_TAG_CLOCK_PS, 0})) * 1e-12;
  double hbm = 0;
  ASSERT_EQ(emulator_api()->model_value(farm.instance, "energy.hbm", &hbm, nullptr, nullptr), JAL_OK);
  EXPECT_NEAR(static_cast<double>(after.at({JAL_TAG_UNIT_ENERGY_NJ, JAL_UNIT_HBM})),
              24 * seconds * 1e9 + (4 << 20) * hbm * 1e-6, 2);
}

TEST(InstanceBudget, GrantsBeyondTheHostBudgetAreRefused) {
  jal_instance_options options = {};
  options.host_budget_bytes = 1 << 20;
  RawInstance farm(options);
  ASSERT_EQ(farm.status, JAL_OK) << farm.error;
  RawClient client;
  ASSERT_EQ(client.attach(farm.instance), JAL_OK) << client.error;
  std::uint64_t offset = 0, reservation = 0;
  EXPECT_EQ(client.allocate(0b1111, 512 << 10, &offset, &reservation), JAL_ERROR_HOST_BUDGET);
  ASSERT_EQ(client.allocate(0b1111, 128 << 10, &offset, &reservation), JAL_OK);
  EXPECT_EQ(client.allocate(0b1111, 256 << 10, &offset, &reservation), JAL_ERROR_HOST_BUDGET);
  ASSERT_EQ(client.mailbox(JAL_MAILBOX_PAGES_FREE, {reservation}), JAL_OK);
  EXPECT_EQ(client.allocate(0b1111, 256 << 10, &offset, &reservation), JAL_OK);
}

TEST_F(InstanceTest, DetachScrubsAndReturnsPages) {
  const std::uint64_t offset = allocate(0b1, kPage);
  const auto in = counting(kPage);
  client.copy(JAL_ADDRESS_HBM(0, offset), RawClient::host(in.data()), kPage, 0, 1, 1);
  ASSERT_TRUE(client.wait(1, 1));
  client.detach();
  RawClient next;
  ASSERT_EQ(next.attach(farm.instance), JAL_OK) << next.error;
  ASSERT_EQ(next.create_queue(), JAL_OK);
  std::uint64_t new_offset = 0, new_reservation = 0;
  ASSERT_EQ(next.allocate(0b1, kPage, &new_offset, &new_reservation), JAL_OK);
  std::vector<unsigned char> out(kPage, 1);
  next.copy(RawClient::host(out.data()), JAL_ADDRESS_HBM(0, new_offset), kPage, 0, 1, 1);
  ASSERT_TRUE(next.wait(1, 1));
  EXPECT_EQ(std::count(out.begin(), out.end(), 0), static_cast<std::ptrdiff_t>(kPage));
}

TEST_F(InstanceTest, ClientsDoNotReachEachOthersMemory) {
  const std::uint64_t offset = allocate(0b1, kPage);
  RawClient other;
  ASSERT_EQ(other.attach(farm.instance), JAL_OK) << other.error;
  ASSERT_EQ(other.create_queue(), JAL_OK);
  std::uint64_t word = 0;
  other.copy(RawClient::host(&word), JAL_ADDRESS_HBM(0, offset), 8, 0, 1, 1);
  ASSERT_TRUE(other.wait(1, 1));
  EXPECT_EQ(other.region().events[1].status, JAL_ERROR_FOREIGN_ADDRESS);
}

TEST_F(InstanceTest, IdleUsesNoProcessorAndNoWakeUps) {
  std::uint64_t word = 0;
  const std::uint64_t offset = allocate(1, 64);
  client.copy(JAL_ADDRESS_HBM(0, offset), RawClient::host(&word), 8, 0, 1, 1);
  ASSERT_TRUE(client.wait(1, 1));
  while (client.step() == JAL_STEP_WORKED) {
  }
  EXPECT_EQ(client.step(), JAL_STEP_IDLE);
  const auto switches = [] {
    std::uint64_t total = 0;
    for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
      if (task.path().filename() == std::to_string(gettid())) continue;
      std::ifstream status(task.path() / "status");
      for (std::string line; std::getline(status, line);) {
        if (line.find("ctxt_switches") != std::string::npos) total += std::stoull(line.substr(line.find(':') + 1));
      }
    }
    return total;
  };
  const auto cpu_ns = [] {
    timespec now{};
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000u + static_cast<std::uint64_t>(now.tv_nsec);
  };
  usleep(20000);  // workers that spin a moment after work come to rest
  const std::uint64_t switches_before = switches(), cpu_before = cpu_ns();
  usleep(200000);
  EXPECT_LT(cpu_ns() - cpu_before, 2'000'000u);
  EXPECT_EQ(switches(), switches_before);
}

TEST_F(InstanceTest, ForkedChildCannotUseOrEndTheInstance) {
  const pid_t child = fork();
  if (child == 0) {
    const bool lost = client.step() == JAL_STEP_LOST;
    client.detach();
    farm.close();
    _exit(lost ? 0 : 1);
  }
  int how = 0;
  waitpid(child, &how, 0);
  EXPECT_TRUE(WIFEXITED(how) && WEXITSTATUS(how) == 0) << how;
  std::uint64_t in = 5, out = 0;
  const std::uint64_t offset = allocate(1, 64);
  client.copy(JAL_ADDRESS_HBM(0, offset), RawClient::host(&in), 8, 0, 1, 1);
  client.copy(RawClient::host(&out), JAL_ADDRESS_HBM(0, offset), 8, 0, 1, 2);
  ASSERT_TRUE(client.wait(1, 2));
  EXPECT_EQ(out, 5u);
  EXPECT_TRUE(std::filesystem::exists(emulator_api()->telemetry_path(farm.instance)));
}

TEST_F(InstanceTest, TraceSinkSeesCopiesInDeviceTime) {
  std::vector<jal_trace_span> spans;
  emulator_api()->set_trace_sink(
      farm.instance,
      [](void* user, const jal_trace_span* span) { static_cast<std::vector<jal_trace_span>*>(user)->push_back(*span); },
      &spans);
  std::uint64_t word = 0;
  const std::uint64_t offset = allocate(1, 64);
  client.copy(JAL_ADDRESS_HBM(0, offset), RawClient::host(&word), 8, 0, 1, 1);
  ASSERT_TRUE(client.wait(1, 1));
  emulator_api()->set_trace_sink(farm.instance, nullptr, nullptr);
  client.copy(JAL_ADDRESS_HBM(0, offset), RawClient::host(&word), 8, 0, 1, 2);
  ASSERT_TRUE(client.wait(1, 2));
  ASSERT_EQ(spans.size(), 1u);
  EXPECT_STREQ(spans[0].name, "copy host to HBM");
  EXPECT_LE(spans[0].end_ps, client.region().events[1].end_ps);
}

TEST_F(InstanceTest, TablesForReports) {
  const char* const* row = emulator_api()->fidelity(farm.instance);
  int rows = 0;
  for (; *row != nullptr; row += 3, ++rows) {
    const std::string level = row[1];
    EXPECT_TRUE(level == "exact" || level == "functional" || level == "approximate" || level == "not modelled")
        << level;
    EXPECT_GT(std::strlen(row[2]), 10u);
  }
  EXPECT_GT(rows, 10);
  double value = 0;
  const char* unit = nullptr;
  const char* source = nullptr;
  ASSERT_EQ(emulator_api()->model_value(farm.instance, "latency.dispatch", &value, &unit, &source), JAL_OK);
  EXPECT_STREQ(unit, "ns");
  EXPECT_THAT(source, HasSubstr("because"));
  EXPECT_EQ(emulator_api()->model_value(farm.instance, "latency.nothing", &value, &unit, &source),
            JAL_ERROR_INVALID_ARGUMENT);
}

TEST_F(InstanceTest, CloseRemovesItsFiles) {
  client.detach();
  farm.close();
  EXPECT_TRUE(std::filesystem::is_empty(farm.dir));
}

}  // namespace
}  // namespace jal::emu
