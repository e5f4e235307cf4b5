// Allocations: HBM at one offset in each slice of a mask, or host memory that the device reaches.
//
// What it is not: a pool; every HBM allocation is a reservation of pages with the firmware. Invariant: an allocation's
// address never changes. Threads: any.
#pragma once
#include <cstdint>
#include <memory>
#include <string>

#include "runtime/device.hpp"

namespace jal::rt {

class Memory {
 public:
  /// slice_mask 0 = all slices; bytes >= 1. OUT_OF_DEVICE_MEMORY, HOST_BUDGET, BAD_SLICE_MASK, INVALID_ARGUMENT.
  static Result<std::unique_ptr<Memory>> alloc_hbm(Device& device, std::uint64_t slice_mask,
                                                   std::uint64_t bytes_per_slice, bool is_pinned);
  /// OUT_OF_HOST_MEMORY, NO_PERMISSION (must_lock and the system forbids it).
  static Result<std::unique_ptr<Memory>> alloc_host(Device& device, std::uint64_t bytes, bool is_pinned,
                                                    bool must_lock);
  ~Memory();
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;

  /// Gives it back. MEMORY_BUSY. On success the object may be deleted.
  Status free();

  Device& device() { return device_; }
  std::uint64_t slice_mask() const { return slice_mask_; }
  std::uint64_t bytes_per_slice() const { return bytes_per_slice_; }
  std::uint64_t granted_per_slice() const { return granted_per_slice_; }
  std::uint64_t offset() const { return offset_; }
  void* host_pointer() const { return host_pointer_; }
  bool is_pinned() const { return is_pinned_; }
  std::uint64_t address() const;
  /// BAD_SLICE_MASK, BAD_ADDRESS.
  Status address_in(std::uint32_t slice, std::uint64_t offset, std::uint64_t* out) const;

 private:
  explicit Memory(Device& device) : device_(device) {}

  Device& device_;
  std::uint64_t slice_mask_ = 0;
  std::uint64_t bytes_per_slice_ = 0;
  std::uint64_t granted_per_slice_ = 0;
  std::uint64_t offset_ = 0;
  std::uint64_t reservation_ = 0;
  void* host_pointer_ = nullptr;
  bool is_pinned_ = false;
};

/// HBM in four layers; see jal_memory_layers.
struct MemoryLayers {
  std::uint64_t chip = 0, reserved = 0, usable = 0, free = 0, mine = 0, largest_free = 0, budget = 0, budget_used = 0;
};
/// slice UINT32_MAX: the whole chip. BAD_SLICE_MASK.
Result<MemoryLayers> query_memory(Device& device, std::uint32_t slice);

/// "1.5 GiB".
std::string bytes_text(std::uint64_t bytes);

}  // namespace jal::rt
