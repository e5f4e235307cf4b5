// Boot by post codes, and the handshake with a client.
#include <gmock/gmock.h>

#include "tests/unit/firmware/control/fake_board.hpp"

namespace jal::fw {
namespace {

std::vector<std::uint64_t> post_codes(const jal_log_ring& log) {
  std::vector<std::uint64_t> codes;
  for (std::uint64_t i = 0; i < log.written; ++i) {
    if (log.entry[i].id == JAL_LOG_BOOT_POST) codes.push_back(log.entry[i].word[0]);
  }
  return codes;
}

TEST(Boot, EveryPostCodeIsLoggedInOrderAndTheDeviceIsReady) {
  const Chip chip;
  EXPECT_THAT(post_codes(chip.board.log),
              ::testing::ElementsAre(JAL_POST_RESET, JAL_POST_CLOCK, JAL_POST_MEMORY, JAL_POST_CORES, JAL_POST_POWER,
                                     JAL_POST_TELEMETRY, JAL_POST_READY));
  EXPECT_EQ(chip.telemetry(JAL_TAG_STATE), JAL_DEVICE_STATE_OK);
  EXPECT_EQ(chip.telemetry(JAL_TAG_POST_CODE), JAL_POST_READY);
  EXPECT_EQ(chip.telemetry(JAL_TAG_UUID, 1), 0x2222u);
  EXPECT_STREQ(chip.board.telemetry->model, "fake");
}

struct BadBoard {
  const char* name;
  std::uint32_t post;
  void (*spoil)(jal_chip_info&);
};
class BootOfBadBoard : public ::testing::TestWithParam<BadBoard> {};

TEST_P(BootOfBadBoard, StopsAtTheStepThatFailedAndRefusesClients) {
  Chip chip(false);
  GetParam().spoil(chip.board.chip);
  chip.control().boot();
  EXPECT_EQ(post_codes(chip.board.log).back(), GetParam().post);
  EXPECT_EQ(chip.telemetry(JAL_TAG_STATE), JAL_DEVICE_STATE_FAILED);
  EXPECT_EQ(chip.telemetry(JAL_TAG_POST_CODE), GetParam().post | JAL_POST_FAILED);
  Client client(chip, 0);
  EXPECT_EQ(client.attach(), JAL_ERROR_BOOT_FAILED);
  EXPECT_EQ(client.region().device.magic, JAL_DEVICE_MAGIC);
  EXPECT_EQ(client.region().device.abi_agreed, 0u);
  EXPECT_EQ(client.region().device.status, JAL_ERROR_BOOT_FAILED);
  EXPECT_EQ(client.region().post_code, GetParam().post | JAL_POST_FAILED);
}

INSTANTIATE_TEST_SUITE_P(
    All, BootOfBadBoard,
    ::testing::Values(
        BadBoard{"no_clock", JAL_POST_CLOCK, [](jal_chip_info& chip) { chip.clock_hz = 0; }},
        BadBoard{"no_slices", JAL_POST_MEMORY, [](jal_chip_info& chip) { chip.slices = 0; }},
        BadBoard{"too_many_slices", JAL_POST_MEMORY, [](jal_chip_info& chip) { chip.slices = JAL_MAX_SLICES + 1; }},
        BadBoard{"slice_below_a_page", JAL_POST_MEMORY, [](jal_chip_info& chip) { chip.slice_bytes = 0; }},
        BadBoard{"slice_not_whole_pages", JAL_POST_MEMORY, [](jal_chip_info& chip) { chip.slice_bytes += 64; }},
        BadBoard{"slice_beyond_offsets", JAL_POST_MEMORY,
                 [](jal_chip_info& chip) { chip.slice_bytes = (1ull << 32) + JAL_PAGE_BYTES; }},
        BadBoard{"no_cores", JAL_POST_CORES, [](jal_chip_info& chip) { chip.cores = chip.grid_rows = 0; }},
        BadBoard{"too_many_cores", JAL_POST_CORES,
                 [](jal_chip_info& chip) { chip.cores = chip.grid_rows = 65, chip.grid_cols = 1; }},
        BadBoard{"grid_of_other_size", JAL_POST_CORES, [](jal_chip_info& chip) { chip.grid_rows = 3; }},
        BadBoard{"rated_below_sustained", JAL_POST_POWER, [](jal_chip_info& chip) { chip.rated_milliwatts = 1; }},
        BadBoard{"no_power", JAL_POST_POWER, [](jal_chip_info& chip) { chip.sustained_milliwatts = 0; }}),
    [](const auto& tested) { return std::string(tested.param.name); });

TEST(Boot, BoardWithoutTelemetryStopsThere) {
  Chip chip(false);
  chip.board.telemetry = nullptr;
  chip.control().boot();
  EXPECT_EQ(post_codes(chip.board.log).back(), JAL_POST_TELEMETRY);
  Client client(chip, 0);
  EXPECT_EQ(client.attach(), JAL_ERROR_BOOT_FAILED);
  EXPECT_EQ(client.region().post_code, JAL_POST_TELEMETRY | JAL_POST_FAILED);
}

TEST(Handshake, AgreesAndDescribesTheChip) {
  Chip chip;
  Client client(chip, 3, JAL_FEATURE_HOST_VA | 1ull << 60);
  ASSERT_EQ(client.attach(), JAL_OK);
  const jal_handshake& device = client.region().device;
  EXPECT_EQ(device.magic, JAL_DEVICE_MAGIC);
  EXPECT_EQ(device.abi_min, JAL_ABI_VERSION_MIN);
  EXPECT_EQ(device.abi_max, JAL_ABI_VERSION_MAX);
  EXPECT_EQ(device.abi_agreed, JAL_ABI_VERSION_MAX);
  EXPECT_EQ(device.features, chip.board.features);
  EXPECT_NE(device.version[0], '\0');
  EXPECT_EQ(std::memcmp(&client.region().chip, &chip.board.chip, sizeof(jal_chip_info)), 0);
  EXPECT_EQ(chip.telemetry(JAL_TAG_CLIENTS), 1u);
  client.detach();
  EXPECT_EQ(chip.telemetry(JAL_TAG_CLIENTS), 0u);
}

TEST(Handshake, NewerClientIsGivenTheHighestCommonVersion) {
  Chip chip;
  Client client(chip, 0);
  client.region().client.abi_max = JAL_ABI_VERSION_MAX + 5;
  ASSERT_EQ(client.attach(), JAL_OK);
  EXPECT_EQ(client.region().device.abi_agreed, JAL_ABI_VERSION_MAX);
}

struct BadHello {
  const char* name;
  std::int32_t status;
  void (*spoil)(jal_handshake&);
};
class HandshakeOfBadClient : public ::testing::TestWithParam<BadHello> {};

TEST_P(HandshakeOfBadClient, IsRefusedAndLeavesNoSession) {
  Chip chip;
  Client client(chip, 0);
  GetParam().spoil(client.region().client);
  EXPECT_EQ(client.attach(), GetParam().status);
  EXPECT_EQ(client.region().device.status, GetParam().status);
  EXPECT_EQ(client.region().device.abi_agreed, 0u);
  EXPECT_EQ(chip.telemetry(JAL_TAG_CLIENTS), 0u);
  client.region().request.sequence = 1;
  EXPECT_EQ(chip.control().step(), StepResult::idle);
  EXPECT_EQ(client.region().response.sequence, 0u) << "the mailbox of a refused client was answered";
}

INSTANTIATE_TEST_SUITE_P(
    All, HandshakeOfBadClient,
    ::testing::Values(
        BadHello{"no_magic", JAL_ERROR_HANDSHAKE_REFUSED, [](jal_handshake& hello) { hello.magic = 0; }},
        BadHello{"range_upside_down", JAL_ERROR_HANDSHAKE_REFUSED,
                 [](jal_handshake& hello) { hello.abi_min = hello.abi_max + 1; }},
        BadHello{"only_newer", JAL_ERROR_ABI_TOO_OLD,
                 [](jal_handshake& hello) { hello.abi_min = hello.abi_max = JAL_ABI_VERSION_MAX + 1; }},
        BadHello{"only_older", JAL_ERROR_ABI_TOO_NEW,
                 [](jal_handshake& hello) { hello.abi_min = hello.abi_max = JAL_ABI_VERSION_MIN - 1; }},
        BadHello{"reserved", JAL_ERROR_RESERVED_NOT_ZERO, [](jal_handshake& hello) { hello.reserved[8] = 1; }},
        BadHello{"agreed", JAL_ERROR_RESERVED_NOT_ZERO, [](jal_handshake& hello) { hello.abi_agreed = 1; }},
        BadHello{"status", JAL_ERROR_RESERVED_NOT_ZERO, [](jal_handshake& hello) { hello.status = 1; }}),
    [](const auto& tested) { return std::string(tested.param.name); });

TEST(Handshake, SlotsAndRegionsThatDoNotExistAreRefused) {
  Chip chip;
  EXPECT_EQ(chip.control().attach(hal::kMaxClients), JAL_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(chip.control().attach(UINT32_MAX), JAL_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(chip.control().attach(0), JAL_ERROR_INVALID_ARGUMENT) << "a slot without a region";
  Client client(chip, 0);
  chip.board.regions[0].bytes = sizeof(jal_client_region) - 1;
  EXPECT_EQ(client.attach(), JAL_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(client.region().device.magic, 0u);
}

TEST(Handshake, AttachedSlotIsBusyAndItsSessionGoesOn) {
  Chip chip;
  Client client(chip, 0);
  ASSERT_EQ(client.attach(), JAL_OK);
  const std::uint64_t offset = client.allocate(1, 1);
  EXPECT_EQ(client.attach(), JAL_ERROR_BUSY);
  EXPECT_EQ(client.ask(JAL_MAILBOX_PAGES_FREE, {client.reservation}), JAL_OK) << "offset " << offset;
}

TEST(Handshake, EverySlotCanBeAttachedAtOnceAndUsedAgain) {
  Chip chip;
  for (int round = 0; round < 2; ++round) {
    std::vector<std::unique_ptr<Client>> clients;
    for (std::uint32_t slot = 0; slot < hal::kMaxClients; ++slot) {
      clients.push_back(std::make_unique<Client>(chip, slot));
      ASSERT_EQ(clients.back()->attach(), JAL_OK) << slot;
      ASSERT_EQ(clients.back()->create_queue(), JAL_OK);
    }
    EXPECT_EQ(chip.telemetry(JAL_TAG_CLIENTS), hal::kMaxClients);
  }
  EXPECT_EQ(chip.telemetry(JAL_TAG_CLIENTS), 0u);
  EXPECT_EQ(chip.telemetry(JAL_TAG_QUEUES), 0u);
}

TEST(Handshake, LostDeviceRefusesNewClients) {
  Chip chip;
  chip.control().set_lost(JAL_ERROR_KERNEL_DEADLINE);
  Client client(chip, 0);
  EXPECT_EQ(client.attach(), JAL_ERROR_DEVICE_LOST);
  EXPECT_EQ(client.region().lost_status, static_cast<std::uint32_t>(JAL_ERROR_KERNEL_DEADLINE));
}

}  // namespace
}  // namespace jal::fw
