// Kernels through the whole stack by hand: module, dispatch, results, time, faults, deadlines.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <jal/abi/module.h>
#include <jal/abi/telemetry.h>

#include <fstream>
#include <sstream>
#include <vector>

#include "tests/unit/emulator/instance/raw_client.hpp"

namespace jal::emu {
namespace {

using ::testing::HasSubstr;

std::string module_bytes() {
  std::ifstream file(JAL_TEST_MODULE, std::ios::binary);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

/// One small chip with the probe module loaded.
class Probe {
 public:
  explicit Probe(jal_instance_options options = {}) : farm(options), file(module_bytes()) {
    EXPECT_EQ(farm.status, JAL_OK) << farm.error;
    EXPECT_EQ(client.attach(farm.instance), JAL_OK) << client.error;
    EXPECT_EQ(client.create_queue(), JAL_OK);
    EXPECT_EQ(load(file), JAL_OK);
    module = client.result[0];
  }
  jal_status_t load(const std::string& bytes) {
    return client.mailbox(JAL_MAILBOX_MODULE_LOAD, {RawClient::host(bytes.data()), bytes.size()});
  }

  /// Dispatches by name; the argument block is what `arguments` holds. Returns the event's status.
  template <typename Arguments>
  jal_status_t run(const std::string& name, std::uint64_t core_mask, const Arguments& arguments) {
    jal_module_header header{};
    std::memcpy(&header, file.data(), sizeof header);
    std::uint32_t kernel = 0;
    jal_kernel_entry entry{};
    for (; kernel < header.kernel_count; ++kernel) {
      std::memcpy(&entry, file.data() + header.kernel_offset + kernel * sizeof entry, sizeof entry);
      if (name == entry.name) break;
    }
    EXPECT_LT(kernel, header.kernel_count) << name;
    EXPECT_LE(entry.argument_bytes, sizeof arguments);
    jal_queue_control& control = client.region().queues[0];
    const std::uint64_t at = control.argument_head % RawClient::kArgumentBytes;
    std::memcpy(reinterpret_cast<char*>(&client.region()) + RawClient::kArgumentOffset + at, &arguments,
                entry.argument_bytes);
    control.argument_head += JAL_ARGUMENT_ALIGN;
    const jal_dispatch_payload payload = {static_cast<std::uint32_t>(module << 16 | kernel), core_mask,
                                          at << 32 | entry.argument_bytes, 4711, 0};
    jal_packet packet = {};
    packet.signal_event = ++event;
    packet.signal_value = 1;
    jal_dispatch_payload_encode(&payload, &packet);
    client.submit(packet, JAL_PACKET_DISPATCH);
    EXPECT_TRUE(client.wait(event, 1)) << name;
    return mirror().status;
  }
  const jal_event_mirror& mirror() { return client.region().events[event]; }
  const jal_error_record& record() { return client.region().records[(mirror().record - 1) % JAL_ERROR_RECORDS]; }
  void recover() { ASSERT_EQ(client.mailbox(JAL_MAILBOX_QUEUE_RECOVER, {0}), JAL_OK); }

  std::uint64_t allocate(std::uint64_t mask, std::uint64_t bytes) {
    std::uint64_t offset = 0, reservation = 0;
    EXPECT_EQ(client.allocate(mask, bytes, &offset, &reservation), JAL_OK);
    return offset;
  }
  void copy(std::uint64_t dst, std::uint64_t src, std::uint64_t bytes, std::uint64_t mask) {
    client.copy(dst, src, bytes, mask, ++event, 1);
    ASSERT_TRUE(client.wait(event, 1));
    ASSERT_EQ(mirror().status, JAL_OK) << record().text;
  }
  std::uint64_t telemetry(std::uint32_t tag, std::uint32_t index = 0) {
    while (client.step() == JAL_STEP_WORKED) {
    }
    std::ifstream stream(emulator_api()->telemetry_path(farm.instance), std::ios::binary);
    jal_telemetry_head head{};
    stream.read(reinterpret_cast<char*>(&head), sizeof head);
    jal_telemetry_page page{};
    stream.seekg(head.device_offset);
    stream.read(reinterpret_cast<char*>(&page), sizeof page);
    for (std::uint32_t i = 0; i < page.count; ++i) {
      if (page.entry[i].tag == tag && page.entry[i].index == index) return page.entry[i].value;
    }
    ADD_FAILURE() << "no tag " << tag << " " << index;
    return 0;
  }

  RawInstance farm;
  RawClient client;
  std::string file;
  std::uint64_t module = 0;
  std::uint32_t event = 0;
};

struct ScaleArguments {
  std::uint64_t x;
  std::uint32_t n;
  float factor;
};

struct SayArguments {
  std::uint32_t number;
  std::uint32_t padding;
};

TEST(InstanceKernel, EveryCoreWorksOnItsOwnSlice) {
  Probe probe;
  std::vector<float> in(4 * 1000), out(in.size());
  for (std::size_t i = 0; i < in.size(); ++i) in[i] = static_cast<float>(i);
  const std::uint64_t offset = probe.allocate(0b1111, 4032);
  probe.copy(JAL_ADDRESS_HBM(0, offset), RawClient::host(in.data()), 4000, 0b1111);
  const std::uint64_t local = probe.telemetry(JAL_TAG_BYTES_LOCAL);
  ASSERT_EQ(probe.run("scale", 0b1011, ScaleArguments{offset, 1000, 2.0f}), JAL_OK) << probe.record().text;
  const std::uint64_t took_ps = probe.mirror().end_ps - probe.mirror().start_ps;
  EXPECT_EQ(probe.telemetry(JAL_TAG_BYTES_LOCAL) - local, 3u * 2 * 4000);
  EXPECT_EQ(probe.telemetry(JAL_TAG_BYTES_REMOTE), 0u);
  EXPECT_EQ(probe.telemetry(JAL_TAG_DISPATCHES), 1u);
  probe.copy(RawClient::host(out.data()), JAL_ADDRESS_HBM(0, offset), 4000, 0b1111);
  for (std::size_t i = 0; i < in.size(); ++i) {
    ASSERT_EQ(out[i], i / 1000 == 2 ? in[i] : 2 * in[i]) << i;
  }
  double dispatch_ns = 0, dma_ns = 0;
  ASSERT_EQ(emulator_api()->model_value(probe.farm.instance, "latency.dispatch", &dispatch_ns, nullptr, nullptr),
            JAL_OK);
  ASSERT_EQ(emulator_api()->model_value(probe.farm.instance, "latency.dma_start", &dma_ns, nullptr, nullptr), JAL_OK);
  EXPECT_GT(static_cast<double>(took_ps), (dispatch_ns + 2 * dma_ns) * 1000)
      << "load, scale and store follow each other";
  EXPECT_LT(static_cast<double>(took_ps), (dispatch_ns + 2 * dma_ns) * 1000 * 3);
}

TEST(InstanceKernel, CoresSumOverTheCollectiveNetwork) {
  Probe probe;
  const float in[4] = {1, 20, 300, 4000};
  float out[4] = {};
  const std::uint64_t offset = probe.allocate(0b1111, 64);
  probe.copy(JAL_ADDRESS_HBM(0, offset), RawClient::host(in), 4, 0b1111);
  ASSERT_EQ(probe.run("sum", 0b1111, ScaleArguments{offset, 1, 0}), JAL_OK) << probe.record().text;
  probe.copy(RawClient::host(out), JAL_ADDRESS_HBM(0, offset), 4, 0b1111);
  for (const float value : out) EXPECT_EQ(value, 4321.0f);
  EXPECT_GT(probe.telemetry(JAL_TAG_BYTES_COLLECTIVE), 0u);
}

TEST(InstanceKernel, TimeEnergyAndBitsDoNotDependOnTheWorkers) {
  std::vector<std::uint64_t> figures[2];
  for (const std::uint32_t workers : {1u, 2u}) {
    jal_instance_options options = {};
    options.worker_threads = workers;
    options.model = "jal1-48";
    Probe probe(options);
    const std::uint64_t all = (1ull << 48) - 1;
    const std::uint64_t offset = probe.allocate(all, 40000 * 4);
    std::vector<float> data(40000 * 48, 1.25f);
    probe.copy(JAL_ADDRESS_HBM(0, offset), RawClient::host(data.data()), 40000 * 4, all);
    for (int round = 0; round < 3; ++round) {
      ASSERT_EQ(probe.run("scale", all, ScaleArguments{offset, 40000, 1.1f}), JAL_OK) << probe.record().text;
      ASSERT_EQ(probe.run("sum", all, ScaleArguments{offset, 40000, 0}), JAL_OK) << probe.record().text;
    }
    probe.copy(RawClient::host(data.data()), JAL_ADDRESS_HBM(0, offset), 40000 * 4, all);
    std::uint64_t bits = 0;
    for (const float value : data) {
      std::uint32_t word = 0;
      std::memcpy(&word, &value, 4);
      bits = bits * 1000003 + word;
    }
    auto& found = figures[workers - 1];
    found = {bits, probe.mirror().end_ps, probe.telemetry(JAL_TAG_ENERGY_NJ)};
    for (std::uint32_t unit = 0; unit < JAL_UNIT_COUNT; ++unit) {
      found.push_back(probe.telemetry(JAL_TAG_UNIT_ENERGY_NJ, unit));
      found.push_back(probe.telemetry(JAL_TAG_UNIT_BUSY_PS, unit));
    }
  }
  EXPECT_EQ(figures[0], figures[1]);
}

TEST(InstanceKernel, PrintedTextReachesTheClient) {
  Probe probe;
  const SayArguments arguments = {42, 0};
  ASSERT_EQ(probe.run("say", 0b1100, arguments), JAL_OK) << probe.record().text;
  const jal_text_ring& ring = probe.client.region().text;
  ASSERT_GT(ring.head, 8u);
  EXPECT_THAT(std::string(reinterpret_cast<const char*>(ring.data) + 8, ring.head - 8),
              HasSubstr("core 2 of 2 says 42\n"));
}

TEST(InstanceKernel, StrayAddressIsRecordedWithKernelCoreAndLine) {
  Probe probe;
  const std::uint64_t address = JAL_ADDRESS_HBM(1, 0x10000);
  EXPECT_EQ(probe.run("stray", 0b1111, address), JAL_ERROR_BAD_ADDRESS) << probe.record().text;
  EXPECT_STREQ(probe.record().kernel, "stray");
  EXPECT_EQ(probe.record().core, 3u);
  EXPECT_EQ(probe.record().address, address);
  EXPECT_EQ(probe.record().tag, 4711u);
  EXPECT_THAT(probe.record().file, HasSubstr("probe.cpp"));
  EXPECT_GT(probe.record().line, 20u);
  probe.recover();
  const SayArguments arguments = {1, 0};
  EXPECT_EQ(probe.run("say", 0b1, arguments), JAL_OK) << "the device goes on";
}

TEST(InstanceKernel, WildPointerEndsTheDispatchOnly) {
  Probe probe;
  const std::uint64_t pointer = 0x10;
  EXPECT_EQ(probe.run("wild", 0b11, pointer), JAL_ERROR_KERNEL_FAULT);
  EXPECT_STREQ(probe.record().kernel, "wild");
  EXPECT_EQ(probe.record().address, pointer);
  probe.recover();
  const SayArguments arguments = {1, 0};
  EXPECT_EQ(probe.run("say", 0b1, arguments), JAL_OK);
}

TEST(InstanceKernel, CoresThatWaitForEachOtherAreADeadlock) {
  Probe probe;
  const std::uint64_t nothing = 0;
  EXPECT_EQ(probe.run("lonely", 0b1111, nothing), JAL_ERROR_KERNEL_DEADLOCK);
  EXPECT_GT(std::string(probe.record().text).size(), 20u);
}

// ThreadSanitizer delivers no signal to a thread that makes no system call, so there nothing can interrupt the kernel.
#if !defined(__SANITIZE_THREAD__)
TEST(InstanceKernel, EndlessLoopTakesTheDeviceDownAtItsDeadline) {
  jal_instance_options options = {};
  options.kernel_deadline_ns = 100'000'000;
  Probe probe(options);
  const std::uint64_t nothing = 0;
  EXPECT_EQ(probe.run("forever", 0b11, nothing), JAL_ERROR_KERNEL_DEADLINE);
  EXPECT_STREQ(probe.record().kernel, "forever");
  EXPECT_EQ(probe.client.step(), JAL_STEP_LOST);
  EXPECT_NE(probe.client.region().lost_status, 0u);
  RawClient late;
  EXPECT_EQ(late.attach(probe.farm.instance), JAL_ERROR_DEVICE_LOST);
}
#endif

TEST(InstanceKernel, CorruptModulesAreRefused) {
  Probe probe;
  std::string flipped = probe.file;
  flipped[flipped.size() / 2] = static_cast<char>(flipped[flipped.size() / 2] ^ 1);
  EXPECT_EQ(probe.load(flipped), JAL_ERROR_BAD_MODULE);
  EXPECT_EQ(probe.load(probe.file.substr(0, probe.file.size() / 2)), JAL_ERROR_BAD_MODULE);
  EXPECT_EQ(probe.load(probe.file.substr(0, 100)), JAL_ERROR_BAD_MODULE);
}

}  // namespace
}  // namespace jal::emu
