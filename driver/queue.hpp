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
    if (needs_preparation()) [[unlikely]] {
      if (const jal_status_t status = prepare(); status != JAL_OK) return status;
    }
    publish(header, packet);
    return JAL_OK;
  }

  /// Room for one packet and `bytes` (1..JAL_ARGUMENT_BYTES_MAX) of arguments. *out_block is where to write them,
  /// *out_word what a dispatch packet says of them. Nothing is taken until push_reserved. ARGUMENT_RING_FULL too.
  jal_status_t reserve(std::uint32_t bytes, void** out_block, std::uint64_t* out_word);
  /// Publishes the packet that goes with the latest reserve.
  void push_reserved(std::uint32_t header, const jal_packet& packet) {
    argument_head_ = reserved_head_;
    control_.argument_head = argument_head_;
    publish(header, packet);
  }

  Session& session() const { return session_; }
  std::uint32_t index() const { return index_; }
  /// Distinguishes this queue from earlier ones of its index.
  std::uint64_t generation() const { return generation_; }
  std::uint64_t published() const { return published_.load(std::memory_order_acquire); }
  std::uint64_t completed() const { return std::atomic_ref(control_.completed).load(std::memory_order_acquire); }
  bool is_idle() const { return completed() >= published(); }
  /// Device time at which a packet ended: of those known to be complete, or a later one.
  std::uint64_t device_time_ps() const { return std::atomic_ref(control_.time_ps).load(std::memory_order_relaxed); }
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

  /// This thread has seen that the first `number` packets are done, at device time `time_ps`: what it enqueues from
  /// here on, on any queue of the device, starts after that and the host's latency. Waits do this themselves; it is for
  /// waits on events. Set only by what the program does, so modelled time does not depend on the host.
  void note_waited(std::uint64_t number, std::uint64_t time_ps);

 private:
  Queue(Session& session, std::uint32_t index, const QueueOptions& options);

  bool needs_preparation() const {
    return published_.load(std::memory_order_relaxed) - consumed_seen_ >= depth_ || is_poisoned() ||
           session_.observed_ps() > observed_seen_ps_;
  }
  /// Makes room for a packet; then lets the queue's time catch up with what this thread has observed.
  jal_status_t prepare();
  void catch_up();
  void publish(std::uint32_t header, const jal_packet& packet) {
    const std::uint64_t number = published_.load(std::memory_order_relaxed);
    jal_packet& slot = ring_[number & (depth_ - 1)];
    std::memcpy(reinterpret_cast<char*>(&slot) + sizeof slot.header,
                reinterpret_cast<const char*>(&packet) + sizeof slot.header, sizeof slot - sizeof slot.header);
    header |= next_flags_;
    next_flags_ = 0;
    if ((number & depth_) == 0) header |= JAL_PACKET_LAP_BIT;
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
  std::atomic<std::uint64_t> waited_{0};  // packets that a thread has waited for
  std::uint64_t observed_seen_ps_ = 0;    // of Session::observed_ps, what this queue's time has caught up with
  std::uint32_t next_flags_ = 0;          // header flags of the next packet
  unsigned char* const arguments_;
  const std::uint64_t argument_bytes_;
  std::uint64_t argument_head_ = 0;
  std::uint64_t argument_tail_seen_ = 0;
  std::uint64_t reserved_head_ = 0;
  const std::uint64_t full_timeout_ns_;
  const bool waits_for_room_;
};

}  // namespace jal::drv
