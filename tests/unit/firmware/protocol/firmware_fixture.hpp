// A booted chip with clients that write the shared memory by hand, as a driver would, or as a hostile one would.
#pragma once
#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <memory>
#include <new>
#include <string>

#include "firmware/control/control.hpp"
#include "tests/unit/firmware/protocol/plain_board.hpp"

namespace jal::fw::test {

inline constexpr std::uint32_t kDepthLog2 = 4;
inline constexpr std::uint64_t kArgumentBytes = 8192;
inline constexpr std::uint32_t kPages = 16;  // of a slice

class Firmware {
 public:
  Firmware() {
    std::strcpy(board.chip.model, "fake");
    board.chip.cores = board.chip.slices = 4;
    board.chip.grid_rows = board.chip.grid_cols = 2;
    board.chip.slice_bytes = kPages * std::uint64_t{JAL_PAGE_BYTES};
    board.chip.chip_bytes = 4 * board.chip.slice_bytes;
    board.chip.clock_hz = 1'000'000'000;
    board.chip.rated_milliwatts = 20;
    board.chip.sustained_milliwatts = 10;
    // The tables are large and touched as they are used: zero pages from the system.
    void* storage = std::calloc(1, sizeof(Control) + alignof(Control));
    storage_.reset(storage);
    const auto at =
        (reinterpret_cast<std::uintptr_t>(storage) + alignof(Control) - 1) / alignof(Control) * alignof(Control);
    control = new (reinterpret_cast<void*>(at)) Control(board);
  }

  std::uint64_t tag(std::uint32_t tag, std::uint32_t index = 0) const {
    for (std::uint32_t i = 0; i < board.telemetry.count; ++i) {
      const jal_telemetry_entry& entry = board.telemetry.entry[i];
      if (entry.tag == tag && entry.index == index) return entry.value;
    }
    ADD_FAILURE() << "no telemetry tag " << tag << " " << index;
    return 0;
  }
  /// Steps until nothing is left to do.
  StepResult run() {
    for (int i = 0; i < 100000; ++i) {
      const StepResult result = control->step();
      if (result != StepResult::worked) return result;
    }
    ADD_FAILURE() << "the firmware never comes to rest";
    return StepResult::worked;
  }

  hal::Board board;
  Control* control = nullptr;

 private:
  struct Free {
    void operator()(void* p) const { std::free(p); }
  };
  std::unique_ptr<void, Free> storage_;
};

/// A client of a booted chip. Queue q has its rings at ring_offset(q) and argument_offset(q).
class Client {
 public:
  Client(Firmware& firmware, std::uint32_t number, std::uint64_t features = JAL_FEATURE_HOST_VA)
      : fw(firmware), slot(number) {
    const std::uint64_t bytes = argument_offset(JAL_QUEUES_PER_CLIENT);
    fw.board.regions[slot].assign(bytes / 8, 0);
    jal_handshake& hello = region().client;
    hello.magic = JAL_CLIENT_MAGIC;
    hello.abi_min = JAL_ABI_VERSION_MIN;
    hello.abi_max = JAL_ABI_VERSION_MAX;
    hello.features = features;
  }
  std::int32_t attach() { return fw.control->attach(slot); }

  jal_client_region& region() { return *reinterpret_cast<jal_client_region*>(bytes()); }
  std::uint8_t* bytes() { return reinterpret_cast<std::uint8_t*>(fw.board.regions.at(slot).data()); }
  static std::uint64_t ring_offset(std::uint32_t queue) {
    return (sizeof(jal_client_region) + 63) / 64 * 64 + queue * ((64ull << kDepthLog2) + kArgumentBytes);
  }
  static std::uint64_t argument_offset(std::uint32_t queue) { return ring_offset(queue) + (64ull << kDepthLog2); }

  struct Answer {
    std::int32_t status;
    std::uint64_t word[7];
  };
  Answer ask(std::uint32_t opcode, std::initializer_list<std::uint64_t> words = {}) {
    jal_mailbox_half& request = region().request;
    request.opcode = opcode;
    std::fill(std::begin(request.word), std::end(request.word), 0);
    std::copy(words.begin(), words.end(), request.word);
    ++request.sequence;
    (void)fw.control->step();
    const jal_mailbox_half& response = region().response;
    EXPECT_EQ(response.sequence, request.sequence);
    Answer answer{static_cast<std::int32_t>(response.opcode), {}};
    std::copy(std::begin(response.word), std::end(response.word), answer.word);
    return answer;
  }
  std::int32_t create_queue(std::uint32_t queue = 0) {
    published_[queue] = 0;
    return ask(JAL_MAILBOX_QUEUE_CREATE,
               {queue, ring_offset(queue), kDepthLog2, argument_offset(queue), kArgumentBytes})
        .status;
  }
  /// Address of `bytes` bytes in each slice of the mask.
  std::uint64_t alloc(std::uint64_t mask, std::uint64_t bytes, std::uint64_t* out_id = nullptr) {
    const Answer answer = ask(JAL_MAILBOX_PAGES_ALLOC, {mask, (bytes + JAL_PAGE_BYTES - 1) / JAL_PAGE_BYTES, bytes});
    EXPECT_EQ(answer.status, JAL_OK);
    if (out_id != nullptr) *out_id = answer.word[1];
    return JAL_ADDRESS_HBM(static_cast<std::uint64_t>(std::countr_zero(mask)), answer.word[0]);
  }

  /// Writes a packet into the queue's next slot with the right lap bit.
  void put(jal_packet packet, std::uint32_t queue = 0) {
    const std::uint64_t at = published_[queue]++;
    const bool is_odd = (at >> kDepthLog2 & 1) != 0;
    packet.header = (packet.header & ~JAL_PACKET_LAP_BIT) | (is_odd ? 0 : JAL_PACKET_LAP_BIT);
    std::memcpy(bytes() + ring_offset(queue) + (at & ((1u << kDepthLog2) - 1)) * 64, &packet, 64);
    region().queues[queue].published = published_[queue];
  }
  jal_queue_control& control(std::uint32_t queue = 0) { return region().queues[queue]; }
  jal_event_mirror& event(std::uint32_t index) { return region().events[index]; }
  const jal_error_record& record(std::uint64_t number) { return region().records[(number - 1) % JAL_ERROR_RECORDS]; }
  const jal_error_record& last_record() { return record(region().record_count); }

  Firmware& fw;
  const std::uint32_t slot;

 private:
  std::uint64_t published_[JAL_QUEUES_PER_CLIENT] = {};
};

inline jal_packet packet(std::uint32_t type, std::uint32_t signal = 0, std::uint64_t value = 0) {
  jal_packet p{};
  p.header = type;
  p.signal_event = signal;
  p.signal_value = value;
  return p;
}
inline jal_packet copy(std::uint64_t dst, std::uint64_t src, std::uint64_t bytes, std::uint64_t mask = 0) {
  jal_packet p = packet(JAL_PACKET_COPY);
  const jal_copy_payload payload{0, dst, src, bytes, mask};
  jal_copy_payload_encode(&payload, &p);
  return p;
}
inline jal_packet fill(std::uint64_t dst, std::uint64_t bytes, std::uint64_t mask = 0) {
  jal_packet p = packet(JAL_PACKET_FILL);
  const jal_fill_payload payload{7, dst, bytes, mask, 0};
  jal_fill_payload_encode(&payload, &p);
  return p;
}
inline std::uint64_t host(const void* p) { return reinterpret_cast<std::uintptr_t>(p) | JAL_ADDRESS_HOST_VA_BIT; }

/// A module that jalcc made: the probes of the emulator's tests.
inline std::string module_file() {
  std::ifstream in(JAL_TEST_MODULE, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

/// Index of a kernel in a module's table.
inline std::uint32_t kernel_index(const std::string& file, const char* name) {
  jal_module_header header;
  std::memcpy(&header, file.data(), sizeof header);
  for (std::uint32_t i = 0; i < header.kernel_count; ++i) {
    jal_kernel_entry entry;
    std::memcpy(&entry, file.data() + header.kernel_offset + i * sizeof entry, sizeof entry);
    if (std::strcmp(entry.name, name) == 0) return i;
  }
  ADD_FAILURE() << "no kernel " << name;
  return 0;
}

}  // namespace jal::fw::test
