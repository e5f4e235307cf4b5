// Modules and dispatches: what a .jko must be, what a kernel is started with, who may name it.
#include <gmock/gmock.h>

#include <bit>

#include "tests/unit/firmware/control/fake_board.hpp"

namespace jal::fw {
namespace {

using ::testing::HasSubstr;

constexpr std::uint64_t kPage = JAL_PAGE_BYTES;

class Dispatch : public ::testing::Test {
 protected:
  Dispatch() {
    for (Client* each : {&client, &other}) {
      EXPECT_EQ(each->attach(), JAL_OK);
      EXPECT_EQ(each->create_queue(), JAL_OK);
    }
    EXPECT_EQ(load(client, file), JAL_OK);
    module = client.result[0];
  }
  static std::int32_t load(Client& who, const std::vector<std::uint8_t>& bytes) {
    return who.ask(JAL_MAILBOX_MODULE_LOAD, {host_address(bytes.data()), bytes.size()});
  }
  jal_packet packet(std::uint64_t of_module, std::uint32_t kernel, std::uint64_t cores, std::uint64_t bytes,
                    std::uint64_t offset = 0, std::uint64_t reserved = 0) const {
    return dispatch_packet(
        {static_cast<std::uint32_t>(of_module << 16 | kernel), cores, offset << 32 | bytes, 42, reserved});
  }
  std::int32_t run(const jal_packet& p) { return client.run(JAL_PACKET_DISPATCH, p); }
  /// A vector of `elements` floats on every slice of the mask.
  static jal_tensor_info tensor(std::uint64_t offset, std::uint64_t mask, std::uint32_t elements) {
    jal_tensor_info info = {};
    info.struct_size = sizeof info;
    info.dtype = JAL_DTYPE_F32;
    info.ndim = 1;
    for (std::uint64_t& extent : info.dims) extent = 1;
    info.dims[0] = elements;
    info.nfactors = 2;
    info.factors[0] = {-1, JAL_PLACE_SLICE, static_cast<std::uint32_t>(std::popcount(mask))};
    info.factors[1] = {0, JAL_PLACE_LINEAR, elements};
    info.slice_mask = mask;
    info.offset = offset;
    info.bytes_per_slice = elements * 4;
    return info;
  }
  std::int32_t run_tensor(const jal_tensor_info& info) {
    std::memcpy(client.arguments(), &info, sizeof info);
    client.region().queues[0].argument_head += sizeof info;
    return run(packet(module, 2, 1, sizeof info));
  }

  Chip chip;
  Client client{chip, 0}, other{chip, 1};
  const std::vector<std::uint8_t> file = make_module(
      {make_kernel("none"), make_kernel("words", {JAL_ARGUMENT_U32, JAL_ARGUMENT_F64, JAL_ARGUMENT_ADDRESS}),
       make_kernel("tensor", {JAL_ARGUMENT_TENSOR})});
  std::uint64_t module = 0;
};

TEST_F(Dispatch, StartsTheKernelWithItsOwnCopyOfTheArguments) {
  for (std::uint8_t i = 0; i < 24; ++i) client.arguments()[128 + i] = i;
  chip.board.on_job = [&](const hal::CoreJob& job, hal::CoreJobResult& out) {
    std::memset(client.arguments(), 0xff, Client::kArgumentBytes);  // a client that writes meanwhile
    EXPECT_EQ(static_cast<const std::uint8_t*>(job.arguments)[23], 23);
    EXPECT_STREQ(job.entry->name, "words");
    out.bytes_local = 100;
    out.busy_ps[JAL_UNIT_MATRIX] = 7;
    out.energy_fj[JAL_UNIT_MATRIX] = 5000000;
    return JAL_OK;
  };
  ASSERT_EQ(run(packet(module, 1, 0b0101, 24, 128)), JAL_OK);
  ASSERT_EQ(chip.board.jobs.size(), 1u);
  const hal::CoreJob& job = chip.board.jobs[0].job;
  EXPECT_EQ(job.kernel, 1u);
  EXPECT_EQ(job.core_mask, 0b0101u);
  EXPECT_EQ(job.client, 0u);
  EXPECT_EQ(job.queue, 0u);
  EXPECT_EQ(job.tag, 42u);
  EXPECT_EQ(job.start_ps, chip.board.costs.packet_ps + chip.board.costs.dispatch_ps);
  EXPECT_EQ(client.region().queues[0].time_ps, job.start_ps + chip.board.job_ps + chip.board.costs.completion_ps);
  EXPECT_EQ(chip.telemetry(JAL_TAG_DISPATCHES), 1u);
  EXPECT_EQ(chip.telemetry(JAL_TAG_BYTES_LOCAL), 100u);
  EXPECT_EQ(chip.telemetry(JAL_TAG_UNIT_BUSY_PS, JAL_UNIT_MATRIX), 7u);
  EXPECT_EQ(
      chip.telemetry(JAL_TAG_UNIT_ENERGY_NJ, JAL_UNIT_MATRIX) - chip.telemetry(JAL_TAG_UNIT_ENERGY_NJ, JAL_UNIT_VECTOR),
      5u);
}

TEST_F(Dispatch, WaitsForItsCoresAndOverlapsOnOthers) {
  ASSERT_EQ(client.create_queue(1), JAL_OK);
  ASSERT_EQ(client.create_queue(2), JAL_OK);
  client.publish(JAL_PACKET_DISPATCH, packet(module, 0, 0b0011, 0), 0);
  client.publish(JAL_PACKET_DISPATCH, packet(module, 0, 0b0110, 0), 1);
  client.publish(JAL_PACKET_DISPATCH, packet(module, 0, 0b1000, 0), 2);
  ASSERT_TRUE(chip.settle());
  ASSERT_EQ(chip.board.jobs.size(), 3u);
  const std::uint64_t first = chip.board.jobs[0].job.start_ps;
  EXPECT_EQ(chip.board.jobs[1].job.start_ps, first + chip.board.job_ps + chip.board.costs.dispatch_ps)
      << "core 1 is busy";
  EXPECT_EQ(chip.board.jobs[2].job.start_ps, first) << "core 3 is free";
  EXPECT_EQ(chip.telemetry(JAL_TAG_DISPATCH_TIME_PS),
            chip.board.jobs[1].job.start_ps + chip.board.job_ps - (first - chip.board.costs.dispatch_ps))
      << "time in which some kernel ran is counted once";
}

TEST_F(Dispatch, BoardsThatAnswerLaterArePolled) {
  chip.board.polls = 4;
  ASSERT_EQ(run(packet(module, 0, 1, 0)), JAL_OK);
  EXPECT_EQ(chip.board.polls, 0u);
  EXPECT_EQ(chip.telemetry(JAL_TAG_DISPATCHES), 1u);
}

TEST_F(Dispatch, RefusalsNameTheirCause) {
  const std::uint64_t ring = Client::kArgumentBytes;
  const struct {
    const char* why;
    std::int32_t status;
    jal_packet packet;
  } cases[] = {
      {"module 0", JAL_ERROR_NO_KERNEL, packet(0, 0, 1, 0)},
      {"module that is not loaded", JAL_ERROR_NO_KERNEL, packet(module + 1, 0, 1, 0)},
      {"module beyond the table", JAL_ERROR_NO_KERNEL, packet(0xffff, 0, 1, 0)},
      {"kernel beyond the module", JAL_ERROR_NO_KERNEL, packet(module, 3, 1, 0)},
      {"no core", JAL_ERROR_BAD_CORE_MASK, packet(module, 0, 0, 0)},
      {"core the chip does not have", JAL_ERROR_BAD_CORE_MASK, packet(module, 0, 0b10001, 0)},
      {"core 63", JAL_ERROR_BAD_CORE_MASK, packet(module, 0, 1ull << 63, 0)},
      {"too few argument bytes", JAL_ERROR_BAD_ARGUMENTS, packet(module, 1, 1, 23)},
      {"argument bytes of another kernel", JAL_ERROR_BAD_ARGUMENTS, packet(module, 0, 1, 24)},
      {"all argument bytes there are", JAL_ERROR_BAD_ARGUMENTS, packet(module, 1, 1, UINT32_MAX)},
      {"unaligned arguments", JAL_ERROR_BAD_PACKET, packet(module, 1, 1, 24, 32)},
      {"arguments past the ring", JAL_ERROR_BAD_PACKET, packet(module, 1, 1, 24, ring)},
      {"arguments across the ring's end", JAL_ERROR_BAD_PACKET, packet(module, 2, 1, 256, ring - 64)},
      {"arguments far away", JAL_ERROR_BAD_PACKET, packet(module, 1, 1, 24, UINT32_MAX - 63)},
      {"reserved", JAL_ERROR_BAD_PACKET, packet(module, 0, 1, 0, 0, 1)},
  };
  for (const auto& c : cases) EXPECT_EQ(run(c.packet), c.status) << c.why << ": " << client.record().text;
  EXPECT_EQ(client.record().tag, 42u);
  EXPECT_TRUE(chip.board.jobs.empty());
}

TEST_F(Dispatch, AModuleBelongsToItsClientAndEndsWithItsUnload) {
  EXPECT_EQ(other.run(JAL_PACKET_DISPATCH, packet(module, 0, 1, 0)), JAL_ERROR_NO_KERNEL);
  EXPECT_EQ(other.ask(JAL_MAILBOX_MODULE_UNLOAD, {module}), JAL_ERROR_INVALID_HANDLE);
  for (const std::uint64_t wrong : {std::uint64_t{0}, module + 1, std::uint64_t{65}, std::uint64_t{1} << 32 | module})
    EXPECT_EQ(client.ask(JAL_MAILBOX_MODULE_UNLOAD, {wrong}), JAL_ERROR_INVALID_HANDLE) << wrong;
  ASSERT_EQ(run(packet(module, 0, 1, 0)), JAL_OK);
  ASSERT_EQ(client.ask(JAL_MAILBOX_MODULE_UNLOAD, {module}), JAL_OK);
  EXPECT_TRUE(chip.board.codes.empty());
  EXPECT_EQ(run(packet(module, 0, 1, 0)), JAL_ERROR_NO_KERNEL) << "a stale module";
  EXPECT_EQ(client.ask(JAL_MAILBOX_MODULE_UNLOAD, {module}), JAL_ERROR_INVALID_HANDLE);
}

TEST_F(Dispatch, FailuresOfTheBoardCarryItsReport) {
  chip.board.on_job = [](const hal::CoreJob&, hal::CoreJobResult& out) {
    out.fault.core = 3;
    out.fault.line = 17;
    out.fault.address = JAL_ADDRESS_HBM(1, 64);
    std::strcpy(out.fault.file, "k.cpp");
    std::strcpy(out.fault.text, "it fell");
    return JAL_ERROR_KERNEL_FAULT;
  };
  EXPECT_EQ(run(packet(module, 0, 1, 0)), JAL_ERROR_KERNEL_FAULT);
  EXPECT_EQ(client.record().core, 3u);
  EXPECT_EQ(client.record().line, 17u);
  EXPECT_EQ(client.record().address, JAL_ADDRESS_HBM(1, 64));
  EXPECT_STREQ(client.record().kernel, "none");
  EXPECT_STREQ(client.record().file, "k.cpp");
  EXPECT_STREQ(client.record().text, "it fell");
  EXPECT_EQ(client.record().packet_type, JAL_PACKET_DISPATCH);
  EXPECT_EQ(chip.telemetry(JAL_TAG_DISPATCHES), 0u);
}

TEST_F(Dispatch, AKernelPastItsDeadlineTakesTheDeviceDown) {
  other.publish(JAL_PACKET_EVENT_WAIT, waiting(1, 1, signalling(2, 1)));
  chip.board.on_job = [](const hal::CoreJob&, hal::CoreJobResult& out) {
    std::strcpy(out.fault.text, "still running");
    return JAL_ERROR_KERNEL_DEADLINE;
  };
  client.publish(JAL_PACKET_DISPATCH, signalling(1, 1, packet(module, 0, 1, 0)));
  EXPECT_TRUE(chip.settle());
  EXPECT_EQ(chip.control().step(), StepResult::lost);
  EXPECT_EQ(client.region().events[1].status, JAL_ERROR_KERNEL_DEADLINE);
  EXPECT_EQ(other.region().events[2].status, JAL_ERROR_DEVICE_LOST);
  EXPECT_EQ(other.region().lost_status, static_cast<std::uint32_t>(JAL_ERROR_KERNEL_DEADLINE));
}

TEST_F(Dispatch, ArgumentBlocksAreGivenBackInOrderAcrossTheRingsEnd) {
  std::uint64_t head = 0;
  for (int n = 0; n < 40; ++n) {
    const std::uint64_t block = 256;
    // 4096 is a multiple of 256: shift by one block of 64 now and then, so that the end is met in the middle.
    if (n % 5 == 4) {
      ASSERT_EQ(run(packet(module, 1, 1, 24, head % Client::kArgumentBytes)), JAL_OK);
      head += 64;
    }
    if (head % Client::kArgumentBytes + block > Client::kArgumentBytes)
      head += Client::kArgumentBytes - head % Client::kArgumentBytes;
    const std::uint64_t at = head % Client::kArgumentBytes;
    const jal_tensor_info info = tensor(client.allocate(1, 1), 1, 16);
    std::memcpy(client.arguments() + at, &info, sizeof info);
    head += block;
    client.region().queues[0].argument_head = head;
    ASSERT_EQ(run(packet(module, 2, 1, 256, at)), JAL_OK);
    ASSERT_EQ(client.region().queues[0].argument_tail, head);
    ASSERT_EQ(client.ask(JAL_MAILBOX_PAGES_FREE, {client.reservation}), JAL_OK);
  }
}

TEST_F(Dispatch, RefusedAndDroppedArgumentBlocksAreGivenBack) {
  jal_queue_control& control = client.region().queues[0];
  control.argument_head = 64;
  client.publish(JAL_PACKET_DISPATCH, packet(module, 1, 0, 24, 0));
  control.argument_head = 192;
  client.publish(JAL_PACKET_DISPATCH, packet(module, 1, 1, 24, 64));
  client.publish(JAL_PACKET_DISPATCH, packet(module, 1, 1, 24, 128));
  ASSERT_TRUE(chip.settle());
  EXPECT_EQ(control.argument_tail, 192u);
  ASSERT_EQ(client.ask(JAL_MAILBOX_QUEUE_RECOVER, {0}), JAL_OK);
  control.argument_head = 256;
  EXPECT_EQ(run(packet(module, 1, 1, 24, 192)), JAL_OK);
  EXPECT_EQ(control.argument_tail, 256u);
}

TEST_F(Dispatch, TensorsAreCheckedForConsistencyAndOwnership) {
  const std::uint64_t mine = client.allocate(0b1111, 1), theirs = other.allocate(0b1111, 1);
  const jal_tensor_info good = tensor(mine, 0b1111, 16);
  ASSERT_EQ(run_tensor(good), JAL_OK);
  EXPECT_EQ(std::memcmp(chip.board.jobs[0].arguments.data(), &good, sizeof good), 0);
  EXPECT_EQ(run_tensor(tensor(mine, 0b0010, 16)), JAL_OK);
  const struct {
    const char* why;
    std::int32_t status;
    void (*spoil)(jal_tensor_info&);
  } cases[] = {
      {"struct size", JAL_ERROR_BAD_TENSOR, [](jal_tensor_info& t) { t.struct_size = 0; }},
      {"reserved0", JAL_ERROR_BAD_TENSOR, [](jal_tensor_info& t) { t.reserved0 = 1; }},
      {"reserved1", JAL_ERROR_BAD_TENSOR, [](jal_tensor_info& t) { t.reserved1[11] = 1; }},
      {"dtype 0", JAL_ERROR_TENSOR_DTYPE, [](jal_tensor_info& t) { t.dtype = 0; }},
      {"dtype 11", JAL_ERROR_TENSOR_DTYPE, [](jal_tensor_info& t) { t.dtype = 11; }},
      {"tiling 2", JAL_ERROR_TENSOR_DTYPE, [](jal_tensor_info& t) { t.tiling = 2; }},
      {"engine tile of floats", JAL_ERROR_TENSOR_DTYPE, [](jal_tensor_info& t) { t.tiling = JAL_TILING_ENGINE; }},
      {"MX in rows", JAL_ERROR_TENSOR_DTYPE, [](jal_tensor_info& t) { t.dtype = JAL_DTYPE_MXFP4; }},
      {"no dimension", JAL_ERROR_BAD_TENSOR, [](jal_tensor_info& t) { t.ndim = 0; }},
      {"seven dimensions", JAL_ERROR_BAD_TENSOR, [](jal_tensor_info& t) { t.ndim = 7; }},
      {"no factor", JAL_ERROR_BAD_TENSOR, [](jal_tensor_info& t) { t.nfactors = 0; }},
      {"nine factors", JAL_ERROR_BAD_TENSOR, [](jal_tensor_info& t) { t.nfactors = 9; }},
      {"empty mask", JAL_ERROR_BAD_SLICE_MASK, [](jal_tensor_info& t) { t.slice_mask = 0; }},
      {"mask beyond the chip", JAL_ERROR_BAD_SLICE_MASK, [](jal_tensor_info& t) { t.slice_mask = 0x10; }},
      {"offset unaligned", JAL_ERROR_UNALIGNED_ADDRESS, [](jal_tensor_info& t) { t.offset += 32; }},
      {"factor of extent 0", JAL_ERROR_BAD_TENSOR, [](jal_tensor_info& t) { t.factors[1].extent = 0; }},
      {"factor of no place", JAL_ERROR_BAD_TENSOR, [](jal_tensor_info& t) { t.factors[1].place = 2; }},
      {"factor of dimension 1", JAL_ERROR_BAD_TENSOR, [](jal_tensor_info& t) { t.factors[1].dim = 1; }},
      {"factor of dimension -2", JAL_ERROR_BAD_TENSOR, [](jal_tensor_info& t) { t.factors[1].dim = -2; }},
      {"factors short of the dimension", JAL_ERROR_BAD_TENSOR, [](jal_tensor_info& t) { t.dims[0] = 17; }},
      {"factors of other slices", JAL_ERROR_BAD_TENSOR, [](jal_tensor_info& t) { t.factors[0].extent = 3; }},
      {"bytes short by one", JAL_ERROR_BAD_TENSOR, [](jal_tensor_info& t) { --t.bytes_per_slice; }},
      {"no bytes", JAL_ERROR_BAD_TENSOR, [](jal_tensor_info& t) { t.bytes_per_slice = 0; }},
      {"extents that wrap", JAL_ERROR_BAD_TENSOR,
       [](jal_tensor_info& t) {
         t.nfactors = 4;
         for (int i = 1; i < 4; ++i) t.factors[i] = {0, JAL_PLACE_LINEAR, 1u << 31};
       }},
      {"bytes past the allocation", JAL_ERROR_TENSOR_RANGE, [](jal_tensor_info& t) { t.bytes_per_slice = kPage + 64; }},
      {"bytes that wrap", JAL_ERROR_TENSOR_RANGE, [](jal_tensor_info& t) { t.bytes_per_slice = ~0ull; }},
      {"offset that wraps", JAL_ERROR_TENSOR_RANGE, [](jal_tensor_info& t) { t.offset = ~63ull; }},
      {"offset beyond 32 bits", JAL_ERROR_TENSOR_RANGE, [](jal_tensor_info& t) { t.offset |= 1ull << 32; }},
  };
  for (const auto& c : cases) {
    jal_tensor_info bad = good;
    c.spoil(bad);
    EXPECT_EQ(run_tensor(bad), c.status) << c.why << ": " << client.record().text;
    EXPECT_THAT(client.record().text, HasSubstr("kernel tensor, argument 0")) << c.why;
  }
  EXPECT_EQ(run_tensor(tensor(theirs, 0b0001, 16)), JAL_ERROR_TENSOR_RANGE);
  EXPECT_EQ(client.record().address, JAL_ADDRESS_HBM(0, theirs));
  EXPECT_EQ(chip.board.jobs.size(), 2u);
}

// One byte of every kind of damage: the checksum finds it; where an attacker repairs the checksum, either a check does,
// or what was changed has no meaning for the firmware (code, build id, names), and the kernels stay usable.
TEST(ModuleImage, EveryFlippedByteIsRefusedOrHarmless) {
  Chip chip;
  Client client(chip, 0);
  ASSERT_EQ(client.attach(), JAL_OK);
  ASSERT_EQ(client.create_queue(), JAL_OK);
  const std::vector<std::uint8_t> good =
      make_module({make_kernel("ab", {JAL_ARGUMENT_U32, JAL_ARGUMENT_U64}), make_kernel("c")});
  std::size_t accepted = 0;
  for (std::size_t i = 0; i < good.size(); ++i) {
    for (const std::uint8_t flip : {std::uint8_t{0x01}, std::uint8_t{0x80}, std::uint8_t{0xff}}) {
      // A block of its own of exactly the size, so that AddressSanitizer sees any byte read beyond it.
      auto bad = good;
      bad[i] ^= flip;
      ASSERT_EQ(client.ask(JAL_MAILBOX_MODULE_LOAD, {host_address(bad.data()), bad.size()}), JAL_ERROR_BAD_MODULE)
          << "byte " << i;
      ASSERT_EQ(client.result[0], client.record().id);
      ASSERT_NE(client.record().text[0], '\0');
      seal_module(bad);
      const std::int32_t status = client.ask(JAL_MAILBOX_MODULE_LOAD, {host_address(bad.data()), bad.size()});
      if (status != JAL_OK) {
        ASSERT_EQ(status, JAL_ERROR_BAD_MODULE) << "byte " << i;
        continue;
      }
      ++accepted;
      const std::uint64_t id = client.result[0];
      for (std::uint32_t kernel = 0; kernel < 3; ++kernel) {
        const std::int32_t run = client.run(
            JAL_PACKET_DISPATCH,
            dispatch_packet({static_cast<std::uint32_t>(id << 16 | kernel), 1, kernel == 0 ? 16u : 0u, 0, 0}));
        ASSERT_TRUE(run == JAL_OK || run == JAL_ERROR_NO_KERNEL || run == JAL_ERROR_BAD_ARGUMENTS)
            << "byte " << i << ": " << run;
      }
      ASSERT_EQ(client.ask(JAL_MAILBOX_MODULE_UNLOAD, {id}), JAL_OK);
    }
  }
  EXPECT_GT(accepted, 64u * 3) << "the code's own bytes are the loader's business, not the firmware's";
  EXPECT_TRUE(chip.board.codes.empty());
}

TEST(ModuleImage, EveryTruncationIsRefused) {
  Chip chip;
  Client client(chip, 0);
  ASSERT_EQ(client.attach(), JAL_OK);
  const std::vector<std::uint8_t> good = make_module({make_kernel("k")});
  for (std::size_t size = 0; size < good.size(); ++size) {
    std::vector<std::uint8_t> cut(good.begin(), good.begin() + static_cast<std::ptrdiff_t>(size));
    if (size >= sizeof(jal_module_header)) {
      cut.shrink_to_fit();
      std::memcpy(cut.data() + offsetof(jal_module_header, file_bytes), &size, 8);
      seal_module(cut);
    }
    const std::int32_t expected = size == 0 ? JAL_ERROR_BAD_ADDRESS : JAL_ERROR_BAD_MODULE;
    ASSERT_EQ(client.ask(JAL_MAILBOX_MODULE_LOAD, {host_address(cut.data()), size}), expected) << size;
  }
}

TEST(ModuleImage, AFileThatChangesWhileItIsLoadedChangesNothing) {
  Chip chip;
  Client client(chip, 0);
  ASSERT_EQ(client.attach(), JAL_OK);
  ASSERT_EQ(client.create_queue(), JAL_OK);
  std::vector<std::uint8_t> file = make_module({make_kernel("k")});
  chip.board.on_load = [&](const void*, std::uint64_t, hal::FaultReport&) {
    // Another thread of the client, after the checks: more kernels, and arguments beyond every limit.
    jal_module_header header;
    std::memcpy(&header, file.data(), sizeof header);
    header.kernel_count = UINT32_MAX;
    std::memcpy(file.data(), &header, sizeof header);
    auto* entry = reinterpret_cast<jal_kernel_entry*>(file.data() + sizeof header);
    entry->argument_bytes = 1u << 30;
    entry->argument_count = UINT32_MAX;
    return JAL_OK;
  };
  ASSERT_EQ(client.ask(JAL_MAILBOX_MODULE_LOAD, {host_address(file.data()), file.size()}), JAL_OK);
  const auto id = static_cast<std::uint32_t>(client.result[0]);
  EXPECT_EQ(client.run(JAL_PACKET_DISPATCH, dispatch_packet({id << 16, 1, 0, 0, 0})), JAL_OK);
  EXPECT_EQ(client.run(JAL_PACKET_DISPATCH, dispatch_packet({id << 16, 1, 1u << 30, 0, 0})), JAL_ERROR_BAD_ARGUMENTS);
  EXPECT_EQ(client.run(JAL_PACKET_DISPATCH, dispatch_packet({id << 16 | 1, 1, 0, 0, 0})), JAL_ERROR_NO_KERNEL);
}

TEST(ModuleImage, TheTablesOfModulesAndKernelsAreLimitsAndAreUsedAgain) {
  Chip chip;
  Client client(chip, 0);
  ASSERT_EQ(client.attach(), JAL_OK);
  const auto load = [&](const std::vector<std::uint8_t>& file) {
    return client.ask(JAL_MAILBOX_MODULE_LOAD, {host_address(file.data()), file.size()});
  };
  const std::vector<std::uint8_t> one = make_module({make_kernel("k")});
  const std::vector<std::uint8_t> many =
      make_module(std::vector<jal_kernel_entry>(JAL_MODULE_KERNELS_MAX, make_kernel("k")));
  const std::vector<std::uint8_t> too_many =
      make_module(std::vector<jal_kernel_entry>(JAL_MODULE_KERNELS_MAX + 1, make_kernel("k")));
  EXPECT_EQ(load(too_many), JAL_ERROR_BAD_MODULE);
  std::vector<std::uint64_t> ids;
  for (std::uint32_t n = 0; n < kMaxKernels / JAL_MODULE_KERNELS_MAX; ++n) {
    ASSERT_EQ(load(many), JAL_OK);
    ids.push_back(client.result[0]);
  }
  EXPECT_EQ(load(one), JAL_ERROR_MODULE_LIMIT) << "no kernel entry is left";
  ASSERT_EQ(client.ask(JAL_MAILBOX_MODULE_UNLOAD, {ids[1]}), JAL_OK);
  ASSERT_EQ(load(many), JAL_OK);
  for (const std::uint64_t id : ids) ASSERT_EQ(client.ask(JAL_MAILBOX_MODULE_UNLOAD, {id}), JAL_OK);
  for (std::uint32_t n = 0; n < kMaxModules; ++n) ASSERT_EQ(load(one), JAL_OK);
  EXPECT_EQ(load(one), JAL_ERROR_MODULE_LIMIT);
  EXPECT_EQ(chip.board.codes.size(), kMaxModules);
}

TEST(ModuleImage, ABoardThatRefusesTheCodeLeavesNoModule) {
  Chip chip;
  Client client(chip, 0);
  ASSERT_EQ(client.attach(), JAL_OK);
  const std::vector<std::uint8_t> file = make_module({make_kernel("k")});
  chip.board.on_load = [](const void*, std::uint64_t, hal::FaultReport& fault) {
    std::strcpy(fault.text, "no section for this chip");
    return static_cast<std::int32_t>(JAL_ERROR_MODULE_ARCH);
  };
  EXPECT_EQ(client.ask(JAL_MAILBOX_MODULE_LOAD, {host_address(file.data()), file.size()}), JAL_ERROR_MODULE_ARCH);
  EXPECT_STREQ(client.record().text, "no section for this chip");
  EXPECT_EQ(client.ask(JAL_MAILBOX_MODULE_UNLOAD, {1}), JAL_ERROR_INVALID_HANDLE);
}

}  // namespace
}  // namespace jal::fw
