// HBM of one chip: host memory behind (slice, page), lazily mapped, one contiguous extent per grant.
//
// What it is not: an owner. The firmware decides who holds which page; this maps what it is told and answers lookups.
// Invariant: a page table entry points into exactly one live extent; resolve() never hands out bytes past the entry's
// used part; a scrubbed extent reads zero when granted again.
// Threads: map and unmap from the stepping thread only; resolve() from any worker while no map or unmap runs.
#pragma once
#include <jal/abi/address.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

namespace jal::emu {

/// Budget of host memory shared by all chips of an instance; charged at map, thread-safe.
class HostBudget;

class Hbm {
 public:
  /// `slices` slices of slice_bytes usable bytes. Reserves address space only.
  Hbm(std::uint32_t slices, std::uint64_t slice_bytes, HostBudget& budget);
  ~Hbm();
  Hbm(const Hbm&) = delete;
  Hbm& operator=(const Hbm&) = delete;

  /// See jal/hal/memory.hpp, MapRequest. Status 0 or JAL_ERROR_HOST_BUDGET / JAL_ERROR_INTERNAL with *error.
  std::int32_t map(std::uint64_t slice_mask, std::uint32_t first_page, std::uint32_t pages,
                   std::uint64_t bytes_per_slice, std::uint32_t client, std::uint32_t* out_extent, std::string* error);
  void unmap(std::uint32_t extent);

  /// Host bytes behind an HBM address, and how many bytes from there on are contiguous in the same slice and grant.
  struct Window {
    std::byte* data = nullptr;  // nullptr: not mapped, or not this client's
    std::uint64_t bytes = 0;
    bool foreign = false;          // mapped, but another client's
    std::uint64_t grant_base = 0;  // device address of the grant in that slice
    std::uint64_t grant_bytes = 0;
  };
  Window resolve(std::uint32_t client, std::uint64_t address) const noexcept;
  /// Before the copy engine writes `bytes` bytes at a window's `data`: large writes get huge pages. Stepping thread.
  void expect_write(const std::byte* data, std::uint64_t bytes) noexcept;
  /// Nearest grant of the client to an address, for error records; {0, 0} if it has none.
  Window nearest(std::uint32_t client, std::uint64_t address) const noexcept;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace jal::emu
