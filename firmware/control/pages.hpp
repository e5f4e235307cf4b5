// Page ownership: which client holds which 64 KiB pages of which slice.
//
// What it is not: a map to bytes (the board keeps that) nor a client's sub-allocator.
// Invariant: a page is held by at most one live reservation; bitmap and reservations always agree; a refused request
// changes nothing. The tables are large and mostly empty: they live in zeroed storage and are touched as they are used.
#pragma once
#include <jal/abi/address.h>
#include <jal/abi/status.h>
#include <stdint.h>

namespace jal::fw {

/// 64 slices of up to 4 GiB of offsets each.
inline constexpr uint32_t kMaxPagesPerSlice = 65536;
inline constexpr uint32_t kMaxReservations = 65536;

/// Pages [first_page, first_page + pages) of every slice of the mask, for one client.
struct Reservation {
  uint64_t slice_mask;  // 0: the slot is free
  uint64_t bytes_per_slice;
  uint32_t first_page;
  uint32_t pages;
  uint32_t extent;  // the board's name for the memory behind it
  uint16_t client;
  uint16_t generation;  // part of the id, so that a freed id stays invalid
  uint32_t next_free;   // index + 1 of the next free slot, while free
  uint32_t reserved;
};

/// Why a request did not fit: filled with OUT_OF_DEVICE_MEMORY.
struct Shortage {
  uint32_t slice = 0;            ///< tightest slice of the mask
  uint32_t largest_run = 0;      ///< its longest run of free pages
  uint32_t free_pages = 0;       ///< its free pages
  uint32_t best_free_pages = 0;  ///< most free pages of any slice of the chip
};

class PageTable {
 public:
  /// Called once, on zeroed storage. pages_per_slice <= kMaxPagesPerSlice.
  void reset(uint32_t slices, uint32_t pages_per_slice);

  /// Reserves `pages` pages at one offset in every slice of the mask: the lowest that fits for several slices, the
  /// highest for one, so that single-slice reservations stay out of the symmetric heap's way. *out_id is never 0. OK,
  /// OUT_OF_DEVICE_MEMORY (*shortage filled). The caller has checked mask and pages (>= 1).
  int32_t reserve(uint64_t slice_mask, uint32_t pages, uint64_t bytes_per_slice, uint32_t client, uint64_t* out_id,
                  Shortage* shortage);
  /// The live reservation of that id and client, or nullptr.
  Reservation* find(uint64_t id, uint32_t client);
  /// Gives the pages back.
  void release(uint64_t id);
  /// Calls visit(id, reservation) for every live reservation of a client; visit may release it.
  template <typename Visit>
  void for_each(uint32_t client, Visit visit) {
    for (uint32_t i = 0; i < used_; ++i) {
      if (slots_[i].slice_mask != 0 && slots_[i].client == client) visit(id_of(i), slots_[i]);
    }
  }

  /// The client's reservation that covers [offset, offset + bytes) of the slice within its used bytes, or nullptr.
  const Reservation* covering(uint32_t client, uint32_t slice, uint64_t offset, uint64_t bytes) const;
  /// Whether another client's reservation holds that page: tells a foreign address from an unmapped one.
  bool is_foreign(uint32_t client, uint32_t slice, uint64_t offset) const;

  uint32_t free_pages(uint32_t slice) const { return pages_ - used_pages_[slice]; }
  uint32_t client_pages(uint32_t client, uint32_t slice) const;
  uint32_t largest_run(uint32_t slice) const;
  uint32_t pages_per_slice() const { return pages_; }
  uint64_t used_bytes() const;

 private:
  static constexpr uint32_t kWords = kMaxPagesPerSlice / 64;

  uint64_t id_of(uint32_t index) const {
    return (static_cast<uint64_t>(slots_[index].generation) << 32) | (index + 1u);
  }
  uint64_t taken(uint64_t slice_mask, uint32_t word) const;
  bool find_low(uint64_t slice_mask, uint32_t pages, uint32_t* out_page) const;
  bool find_high(uint64_t slice_mask, uint32_t pages, uint32_t* out_page) const;
  void mark(uint64_t slice_mask, uint32_t first_page, uint32_t pages, bool held);

  uint32_t slices_;
  uint32_t pages_;
  uint32_t used_;       // slots ever used
  uint32_t free_head_;  // index + 1 of a free slot below used_, 0 = none
  uint32_t used_pages_[JAL_MAX_SLICES];
  uint64_t held_[JAL_MAX_SLICES][kWords];  // bit set: held
  Reservation slots_[kMaxReservations];
  // Index + 1 of the reservation that holds a page: covering() is one look-up. 16 MiB of address space, touched by use.
  uint32_t owner_[JAL_MAX_SLICES][kMaxPagesPerSlice];
};

}  // namespace jal::fw
