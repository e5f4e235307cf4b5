// A client that speaks the contract by hand: region, mailbox, queue and packets as firmware/abi says, no driver.
//
// What it is not: a driver; it takes no care of credit or failure beyond what a test needs.
#pragma once
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <jal/abi/address.h>
#include <jal/abi/instance.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <string>

namespace jal::emu {

/// libjal-emulator.so of this build, opened once.
inline const jal_instance_api* emulator_api(std::uint32_t version = JAL_INSTANCE_API_VERSION) {
  static const auto get = [] {
    const auto path = std::filesystem::read_symlink("/proc/self/exe").parent_path() / "../lib/libjal-emulator.so";
    void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    EXPECT_NE(library, nullptr) << dlerror();
    return reinterpret_cast<const jal_instance_api* (*)(std::uint32_t)>(dlsym(library, JAL_INSTANCE_SYMBOL));
  }();
  return get(version);
}

class RawClient {
 public:
  static constexpr std::uint32_t kDepth = 16;
  static constexpr std::uint64_t kRingOffset = (sizeof(jal_client_region) + 4095) / 4096 * 4096;
  static constexpr std::uint64_t kArgumentOffset = kRingOffset + JAL_QUEUES_PER_CLIENT * kDepth * sizeof(jal_packet);
  static constexpr std::uint64_t kArgumentBytes = 65536;
  static constexpr std::uint64_t kRegionBytes = kArgumentOffset + kArgumentBytes;

  RawClient()
      : region_(static_cast<jal_client_region*>(std::aligned_alloc(4096, (kRegionBytes + 4095) / 4096 * 4096))) {
    std::memset(static_cast<void*>(region_), 0, kRegionBytes);
    region_->client.abi_min = JAL_ABI_VERSION_MIN;
    region_->client.abi_max = JAL_ABI_VERSION_MAX;
    region_->client.features = JAL_FEATURE_HOST_VA;
    std::strcpy(region_->client.version, "0.0.1");
  }
  ~RawClient() {
    detach();
    std::free(region_);
  }
  RawClient(const RawClient&) = delete;
  RawClient& operator=(const RawClient&) = delete;

  jal_status_t attach(jal_instance* instance, std::uint32_t device = 0) {
    std::atomic_ref(region_->client.magic).store(JAL_CLIENT_MAGIC, std::memory_order_release);
    char text[512] = "";
    const jal_status_t status =
        emulator_api()->attach(instance, device, region_, kRegionBytes, &attachment_, text, sizeof text);
    error = text;
    return status;
  }
  void detach() {
    if (attachment_ != nullptr) emulator_api()->detach(attachment_);
    attachment_ = nullptr;
  }
  jal_client_region& region() { return *region_; }
  std::uint32_t step() { return emulator_api()->step(attachment_); }

  /// Steps until done() or about 2^20 steps did nothing for it.
  template <typename Done>
  bool step_until(Done&& done) {
    for (int i = 0; i < (1 << 20); ++i) {
      if (done()) return true;
      if (step() == JAL_STEP_BUSY) sched_yield();
    }
    return done();
  }

  /// One mailbox request; result has the answer's words.
  jal_status_t mailbox(std::uint32_t opcode, std::initializer_list<std::uint64_t> arguments) {
    jal_mailbox_half& request = region_->request;
    jal_mailbox_half& response = region_->response;
    std::memset(request.word, 0, sizeof request.word);
    std::copy(arguments.begin(), arguments.end(), request.word);
    request.opcode = opcode;
    const std::uint32_t sequence = request.sequence + 1;
    std::atomic_ref(request.sequence).store(sequence, std::memory_order_release);
    const bool answered =
        step_until([&] { return std::atomic_ref(response.sequence).load(std::memory_order_acquire) == sequence; });
    EXPECT_TRUE(answered) << "mailbox operation " << opcode;
    std::memcpy(result, response.word, sizeof result);
    return static_cast<jal_status_t>(response.opcode);
  }

  jal_status_t create_queue(std::uint32_t queue = 0) {
    const std::uint64_t log2_depth = 4;
    return mailbox(JAL_MAILBOX_QUEUE_CREATE, {queue, kRingOffset + queue * kDepth * sizeof(jal_packet), log2_depth,
                                              kArgumentOffset, kArgumentBytes});
  }

  /// Pages in every slice of the mask; `offset` is the same in each.
  jal_status_t allocate(std::uint64_t mask, std::uint64_t bytes_per_slice, std::uint64_t* offset,
                        std::uint64_t* reservation) {
    const jal_status_t status = mailbox(
        JAL_MAILBOX_PAGES_ALLOC, {mask, (bytes_per_slice + JAL_PAGE_BYTES - 1) / JAL_PAGE_BYTES, bytes_per_slice, 0});
    if (status == JAL_OK) {
      *offset = result[0];
      *reservation = result[1];
    }
    return status;
  }

  void submit(jal_packet packet, std::uint32_t type, std::uint32_t queue = 0) {
    jal_queue_control& control = region_->queues[queue];
    auto* ring = reinterpret_cast<jal_packet*>(reinterpret_cast<char*>(region_) + kRingOffset) + queue * kDepth;
    const std::uint64_t number = control.published;
    EXPECT_TRUE(step_until(
        [&] { return number - std::atomic_ref(control.consumed).load(std::memory_order_acquire) < kDepth; }));
    jal_packet& slot = ring[number % kDepth];
    const std::uint32_t lap = (number / kDepth) % 2 == 0 ? JAL_PACKET_LAP_BIT : 0;
    std::memcpy(reinterpret_cast<char*>(&slot) + 4, reinterpret_cast<const char*>(&packet) + 4, sizeof slot - 4);
    std::atomic_ref(slot.header).store(packet.header | type | lap, std::memory_order_release);
    std::atomic_ref(control.published).store(number + 1, std::memory_order_release);
  }

  void copy(std::uint64_t dst, std::uint64_t src, std::uint64_t bytes, std::uint64_t slice_mask, std::uint32_t event,
            std::uint64_t value, std::uint32_t queue = 0) {
    const jal_copy_payload payload = {0, dst, src, bytes, slice_mask};
    jal_packet packet = {};
    packet.signal_event = event;
    packet.signal_value = value;
    jal_copy_payload_encode(&payload, &packet);
    submit(packet, JAL_PACKET_COPY, queue);
  }

  bool wait(std::uint32_t event, std::uint64_t value) {
    return step_until(
        [&] { return std::atomic_ref(region_->events[event].value).load(std::memory_order_acquire) >= value; });
  }

  static std::uint64_t host(const void* pointer) {
    return reinterpret_cast<std::uintptr_t>(pointer) | JAL_ADDRESS_HOST_VA_BIT;
  }

  std::string error;
  std::uint64_t result[7] = {};

 private:
  jal_client_region* region_;
  jal_attachment* attachment_ = nullptr;
};

/// An instance of small chips in a rendezvous directory of its own.
class RawInstance {
 public:
  explicit RawInstance(jal_instance_options options = {}) {
    char name[] = "/tmp/jal-instance-XXXXXX";
    dir = mkdtemp(name);
    setenv("JAL_RUNTIME_DIR", dir.c_str(), 1);
    options.struct_size = sizeof options;
    if (options.model == nullptr) options.model = "jal-test4";
    char text[512] = "";
    status = emulator_api()->open(&options, &instance, text, sizeof text);
    error = text;
  }
  ~RawInstance() {
    close();
    unsetenv("JAL_RUNTIME_DIR");
    std::filesystem::remove_all(dir);
  }
  RawInstance(const RawInstance&) = delete;
  RawInstance& operator=(const RawInstance&) = delete;
  void close() {
    if (instance != nullptr) emulator_api()->close(instance);
    instance = nullptr;
  }

  jal_instance* instance = nullptr;
  jal_status_t status = JAL_OK;
  std::string dir, error;
};

}  // namespace jal::emu
