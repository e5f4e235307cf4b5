// A queue of packets between this client and one device: the ring, the argument ring, credit. Contract:
// jal/abi/packet.h.
//
// What it is not: a stream; it does not know what packets mean. Invariant: a slot is written only while it is the
// client's (credit), its header last with release; a failed call changes nothing.
// Threads: push calls, recover and destruction are externally synchronised; wait and query from any thread.
#pragma once
#include <jal/abi/packet.h>

#include <atomic>
#include <cstring>
#include <memory>
#include <optional>
#include <string>

#include "driver/session.hpp"

namespace jal::drv {

struct QueueOptions {
  std::uint32_t depth = 1024;                      ///< packets, a power of two within the contract's limits
  std::uint32_t argument_bytes = 256 * 1024;       ///< a power of two, 4 KiB..1 MiB
  std::uint64_t full_timeout_ns = 60'000'000'000;  ///< how long a push may drive the device to make room
  bool waits_for_room = true;                      ///< else a full ring fails at once
};

class Queue {
 public:
  /// QUEUE_LIMIT, INVALID_ARGUMENT, FIRMWARE_HUNG, DEVICE_LOST. The session must outlive the queue.
  static Result<std::unique_ptr<Queue>> create(Session& session, const QueueOptions& options);
  /// Gives the queue back; work that is still pending is dropped.
  ~Queue();
  Queue(const Queue&) = delete;
  Queue& operator=(const Queue&) = delete;

  /// Publishes one packet: `header` has type and flags, `packet` all the rest. QUEUE_FULL, QUEUE_POISONED, DEVICE_LOST.
  jal_status_t push(std::uint32_t header, const jal_packet& packet) {
    std::uint64_t number = published_.load(std::memory_order_relaxed);
    if (number - consumed_seen_ >= depth_ || is_poisoned()) [[unlikely]] {
      if (const jal_status_t status = make_room(); status != JAL_OK) return status;
    }
    publish(number, header, packet);
    return JAL_OK;
  }

  /// Room for one packet and `bytes` (1..JAL_ARGUMENT_BYTES_MAX) of arguments. *out_block is where to write them,
  /// *out_word what a dispatch packet says of them. Nothing is taken until push_reserved. ARGUMENT_RING_FULL too.
  jal_status_t reserve(std::uint32_t bytes, void** out_block, std::uint64_t* out_word);
  /// Publishes the packet that goes with the latest reserve.
  void push_reserved(std::uint32_t header, const jal_packet& packet) {
    argument_head_ = reserved_head_;
    control_.argument_head = argument_head_;
    publish(published_.load(std::memory_order_relaxed), header, packet);
  }

  Session& session() const { return session_; }
  std::uint32_t index() const { return index_; }
  /// Distinguishes this queue from earlier ones of its index.
  std::uint64_t generation() const { return generation_; }
  std::uint64_t published() const { return published_.load(std::memory_order_acquire); }
  std::uint64_t completed() const { return std::atomic_ref(control_.completed).load(std::memory_order_acquire); }
  bool is_idle() const { return completed() >= published(); }
  bool is_poisoned() const {
    return std::atomic_ref(control_.state).load(std::memory_order_acquire) == JAL_QUEUE_STATE_POISONED;
  }

  /// Waits until everything published before the call is done. TIMEOUT; the status of a failure, with its record as the
  /// message; DEVICE_LOST.
  Status wait(std::uint64_t deadline_ns);
  /// NOT_READY (bare) after one step that did not finish it, else as wait.
  Status query();
  /// Drops what is queued and starts again. Answers how many packets never ran.
  Result<std::uint64_t> recover();
  /// The record of the failure that poisoned the queue; empty if there is none.
  std::optional<jal_error_record> failure_record() const;
  /// The failure as a Status with a message; OK if there is none.
  Status failure() const;

  /// The program has waited for this queue: the host's latency passes before its next packet.
  void note_waited() { has_waited_.store(true, std::memory_order_relaxed); }

 private:
  Queue(Session& session, std::uint32_t index, const QueueOptions& options);

  void publish(std::uint64_t number, std::uint32_t header, const jal_packet& packet) {
    jal_packet& slot = ring_[number & (depth_ - 1)];
    std::memcpy(reinterpret_cast<char*>(&slot) + sizeof slot.header,
                reinterpret_cast<const char*>(&packet) + sizeof slot.header, sizeof slot - sizeof slot.header);
    if ((number & depth_) == 0) header |= JAL_PACKET_LAP_BIT;
    if (has_waited_.load(std::memory_order_relaxed)) [[unlikely]] {
      has_waited_.store(false, std::memory_order_relaxed);
      if (number != 0) header |= JAL_PACKET_FLAG_AFTER_HOST << 8;
    }
    // Pairs with the firmware's acquire of the header: the packet and its arguments are there.
    std::atomic_ref(slot.header).store(header, std::memory_order_release);
    std::atomic_ref(control_.published).store(number + 1, std::memory_order_release);
    published_.store(number + 1, std::memory_order_release);
  }
  std::string failure_words() const;
  jal_status_t make_room();
  jal_status_t make_argument_room(std::uint64_t new_head);
  bool has_credit();

  Session& session_;
  const std::uint32_t index_;
  const std::uint64_t generation_;
  const std::uint64_t depth_;
  jal_packet* const ring_;
  jal_queue_control& control_;
  std::atomic<std::uint64_t> published_{0};
  std::uint64_t consumed_seen_ = 0;
  std::atomic<bool> has_waited_{false};
  unsigned char* const arguments_;
  const std::uint64_t argument_bytes_;
  std::uint64_t argument_head_ = 0;
  std::uint64_t argument_tail_seen_ = 0;
  std::uint64_t reserved_head_ = 0;
  const std::uint64_t full_timeout_ns_;
  const bool waits_for_room_;
};

}  // namespace jal::drv
