// A stream: one queue, and the packets that an application's calls become.
//
// What it is not: a thread. Invariant: packets run in the order of enqueueing. A failure poisons the stream until it is
// recovered. Threads: one at a time enqueues, recovers or destroys; queue().wait and query from any.
#pragma once
#include <jal/abi/address.h>
#include <jal/abi/packet.h>

#include <cstdint>
#include <memory>

#include "driver/queue.hpp"
#include "runtime/device.hpp"

namespace jal::rt {

class Stream {
 public:
  /// As Queue::create.
  static Result<std::unique_ptr<Stream>> create(Device& device, const drv::QueueOptions& options);
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  Device& device() { return device_; }
  drv::Queue& queue() { return *queue_; }

  /// All: QUEUE_FULL, QUEUE_POISONED, DEVICE_LOST with a message, besides what is named.
  Status enqueue(std::uint32_t type, const jal_packet& packet) { return queue_->push(type, packet); }

  /// bytes >= 1; slice_mask as in jal_copy_payload. INVALID_ARGUMENT.
  Status copy(std::uint64_t dst, std::uint64_t src, std::uint64_t bytes, std::uint64_t slice_mask);
  /// INVALID_ARGUMENT, UNALIGNED_ADDRESS.
  Status fill(std::uint64_t dst, std::uint32_t pattern, std::uint64_t bytes, std::uint64_t slice_mask);
  /// INVALID_ARGUMENT.
  Status set_phase(std::uint32_t phase);
  Status count_tokens(std::uint32_t phase, std::uint64_t tokens);
  Status idle(std::uint64_t idle_ns);

 private:
  Stream(Device& device, std::unique_ptr<drv::Queue> queue) : queue_(std::move(queue)), device_(device) {}

  std::unique_ptr<drv::Queue> queue_;
  Device& device_;
};

/// A host pointer as a device address.
inline std::uint64_t host_address(const void* pointer) {
  return reinterpret_cast<std::uintptr_t>(pointer) | JAL_ADDRESS_HOST_VA_BIT;
}

}  // namespace jal::rt
