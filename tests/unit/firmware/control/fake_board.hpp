// A board in plain memory, and a client that speaks the contract by hand: what the firmware's tests run on.
//
// What it is not: an emulator; it has no model of time beyond what a test sets. Invariant: the board checks again what
// the firmware must have checked, and reports a test failure where the firmware let something through.
#pragma once
#include <gtest/gtest.h>
#include <jal/abi/address.h>
#include <jal/abi/packet.h>
#include <jal/abi/session.h>
#include <jal/abi/tensor.h>

#include <cstring>
#include <functional>
#include <initializer_list>
#include <jal/hal/board.hpp>
#include <jal/hal/clock.hpp>
#include <jal/hal/cores.hpp>
#include <jal/hal/dma.hpp>
#include <jal/hal/memory.hpp>
#include <map>
#include <memory>
#include <set>
#include <vector>

#include "firmware/control/control.hpp"

struct jal::hal::Board {
  static constexpr std::uint32_t kSlices = 4, kPages = 32;
  static constexpr std::uint64_t kSliceBytes = kPages * std::uint64_t{JAL_PAGE_BYTES};

  Board();
  /// Bytes of HBM at a device address.
  std::uint8_t* at(std::uint64_t address) {
    return hbm.get() + JAL_ADDRESS_SLICE(address) * kSliceBytes + JAL_ADDRESS_OFFSET(address);
  }
  /// Whether [address, address + bytes) of HBM lies in one extent of the client.
  bool owns(std::uint32_t client, std::uint64_t address, std::uint64_t bytes) const;

  jal_chip_info chip = {};
  std::uint64_t features = JAL_FEATURE_HOST_VA | JAL_FEATURE_EMULATED | JAL_FEATURE_NATIVE;
  struct Region {
    void* memory = nullptr;
    std::uint64_t bytes = 0;
  } regions[kMaxClients];
  jal_telemetry_page own_telemetry = {};
  jal_telemetry_page* telemetry = &own_telemetry;  // nullptr: the board has none
  jal_log_ring log = {};

  FirmwareCosts costs = {100, 1000, 500, 2000};
  std::uint64_t unix_ns = 1000;
  std::function<void()> on_clock;  // called when the firmware reads the host's clock
  std::function<void()> on_meter;  // called when the firmware reads a meter: several times a packet

  std::unique_ptr<std::uint8_t, void (*)(void*)> hbm;
  std::map<std::uint32_t, MapRequest> extents;
  std::uint32_t next_extent = 1;
  std::uint64_t budget_limit = ~0ull, budget_used = 0;
  std::vector<std::pair<const std::uint8_t*, std::uint64_t>> host_buffers;  // all host memory that copies may touch
  std::uint64_t copies = 0;
  std::uint64_t copy_ps = 10000;

  std::set<std::uint32_t> codes;
  std::uint32_t next_code = 1;
  std::function<std::int32_t(const void* file, std::uint64_t bytes, FaultReport& fault)> on_load;

  struct Job {
    CoreJob job;
    std::vector<std::uint8_t> arguments;
  };
  std::vector<Job> jobs;
  std::uint64_t job_ps = 50000;
  std::uint32_t polls = 0;  // cores_start() answers kPending, and so many polls after it
  std::function<std::int32_t(const CoreJob&, CoreJobResult&)> on_job;
  CoreJobResult pending;

  std::uint64_t energy_fj[JAL_UNIT_COUNT] = {};
  std::uint64_t static_uw = 9000000;  // each unit
};

namespace jal::fw {

/// Management firmware on a board of its own.
class Chip {
 public:
  /// boots unless told otherwise.
  explicit Chip(bool boot = true);
  ~Chip();
  Chip(const Chip&) = delete;
  Chip& operator=(const Chip&) = delete;

  Control& control() { return *control_; }
  /// Steps until nothing is left to do; false: it never became idle.
  bool settle();
  /// The newest value of a tag; a test failure if the page does not have it.
  std::uint64_t telemetry(std::uint32_t tag, std::uint32_t index = 0) const;

  hal::Board board;

 private:
  Control* control_;
};

/// One client slot: region, queues of 16 packets, mailbox.
class Client {
 public:
  static constexpr std::uint32_t kDepth = 16, kDepthLog2 = 4;
  static constexpr std::uint64_t kRingBytes = kDepth * sizeof(jal_packet);
  static constexpr std::uint64_t kRings = (sizeof(jal_client_region) + 4095) / 4096 * 4096;
  static constexpr std::uint64_t kArgumentBytes = 4096;
  static constexpr std::uint64_t kArguments = kRings + JAL_QUEUES_PER_CLIENT * kRingBytes;
  static constexpr std::uint64_t kBytes = kArguments + JAL_QUEUES_PER_CLIENT * kArgumentBytes;

  Client(Chip& chip, std::uint32_t slot, std::uint64_t features = JAL_FEATURE_HOST_VA);
  ~Client();
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  std::int32_t attach();
  void detach();
  std::int32_t ask(std::uint32_t opcode, std::initializer_list<std::uint64_t> arguments);
  std::int32_t create_queue(std::uint32_t queue = 0);
  /// Offset of `pages` pages in every slice of the mask; a test failure if refused.
  std::uint64_t allocate(std::uint64_t mask, std::uint64_t pages);

  jal_packet& slot_of(std::uint32_t queue, std::uint64_t number);
  std::uint8_t* arguments(std::uint32_t queue = 0) { return bytes() + kArguments + queue * kArgumentBytes; }
  std::uint8_t* bytes() { return reinterpret_cast<std::uint8_t*>(region_); }
  jal_client_region& region() { return *region_; }
  std::uint32_t slot() const { return slot_; }

  /// Writes a packet of the type into the queue and publishes it.
  void publish(std::uint32_t type, jal_packet packet = {}, std::uint32_t queue = 0, std::uint32_t flags = 0);
  /// Publishes, steps until idle, and returns why the packet failed (JAL_OK if it did not). A poisoned queue is
  /// recovered.
  std::int32_t run(std::uint32_t type, jal_packet packet = {}, std::uint32_t queue = 0);
  /// The newest error record.
  const jal_error_record& record() const { return region_->records[(region_->record_count - 1) % JAL_ERROR_RECORDS]; }

  std::uint64_t result[7] = {};
  std::uint64_t reservation = 0;  // of the last allocate()

 private:
  Chip& chip_;
  std::uint32_t slot_;
  jal_client_region* region_;
};

template <typename View>
jal_packet packet_of(const View& view, void (*encode)(const View*, jal_packet*)) {
  jal_packet packet = {};
  encode(&view, &packet);
  return packet;
}
inline jal_packet copy_packet(const jal_copy_payload& view) { return packet_of(view, jal_copy_payload_encode); }
inline jal_packet fill_packet(const jal_fill_payload& view) { return packet_of(view, jal_fill_payload_encode); }
inline jal_packet dispatch_packet(const jal_dispatch_payload& view) {
  return packet_of(view, jal_dispatch_payload_encode);
}
inline jal_packet signalling(std::uint32_t event, std::uint64_t value, jal_packet packet = {}) {
  packet.signal_event = event;
  packet.signal_value = value;
  return packet;
}
inline jal_packet waiting(std::uint32_t event, std::uint64_t value, jal_packet packet = {}) {
  packet.wait_event = event;
  packet.wait_value = value;
  return packet;
}
inline std::uint64_t host_address(const void* pointer) {
  return reinterpret_cast<std::uintptr_t>(pointer) | JAL_ADDRESS_HOST_VA_BIT;
}

/// A .jko file: kernels without arguments besides those given, one section of `code_bytes` bytes.
std::vector<std::uint8_t> make_module(const std::vector<jal_kernel_entry>& kernels, std::uint32_t code_bytes = 64);
/// A kernel table entry with the arguments laid out one after another, each naturally aligned.
jal_kernel_entry make_kernel(const char* name, std::initializer_list<std::uint32_t> argument_types = {});
/// Makes the checksum right again after a change.
void seal_module(std::vector<std::uint8_t>& file);

}  // namespace jal::fw
