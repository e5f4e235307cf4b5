// Page ownership. See pages.hpp.
#include "firmware/control/pages.hpp"

#include <bit>

namespace jal::fw {

void PageTable::reset(uint32_t slices, uint32_t pages_per_slice) {
  slices_ = slices;
  pages_ = pages_per_slice;
}

/// Pages of a word that are not free in every slice of the mask; those past the end count as taken.
uint64_t PageTable::taken(uint64_t slice_mask, uint32_t word) const {
  uint64_t bits = 0;
  for (uint64_t rest = slice_mask; rest != 0; rest &= rest - 1) {
    bits |= held_[std::countr_zero(rest)][word];
    if (bits == ~0ull) break;
  }
  const uint32_t end = pages_ - word * 64u;
  return end >= 64 ? bits : bits | (~0ull << end);
}

bool PageTable::find_low(uint64_t slice_mask, uint32_t pages, uint32_t* out_page) const {
  uint32_t run = 0;
  for (uint32_t word = 0; word * 64u < pages_; ++word) {
    uint64_t bits = taken(slice_mask, word);
    if (bits == ~0ull) {
      run = 0;
      continue;
    }
    for (uint32_t bit = 0; bit < 64; ++bit, bits >>= 1) {
      run = (bits & 1) != 0 ? 0 : run + 1;
      if (run == pages) {
        *out_page = word * 64u + bit + 1 - pages;
        return true;
      }
    }
  }
  return false;
}

bool PageTable::find_high(uint64_t slice_mask, uint32_t pages, uint32_t* out_page) const {
  uint32_t run = 0;
  for (uint32_t word = (pages_ + 63) / 64; word-- > 0;) {
    uint64_t bits = taken(slice_mask, word);
    if (bits == ~0ull) {
      run = 0;
      continue;
    }
    for (uint32_t bit = 64; bit-- > 0; bits <<= 1) {
      run = (bits >> 63) != 0 ? 0 : run + 1;
      if (run == pages) {
        *out_page = word * 64u + bit;
        return true;
      }
    }
  }
  return false;
}

void PageTable::mark(uint64_t slice_mask, uint32_t first_page, uint32_t pages, bool held) {
  for (uint64_t rest = slice_mask; rest != 0; rest &= rest - 1) {
    const uint32_t slice = static_cast<uint32_t>(std::countr_zero(rest));
    for (uint32_t page = first_page; page < first_page + pages; ++page) {
      const uint64_t bit = 1ull << (page % 64);
      if (held) {
        held_[slice][page / 64] |= bit;
      } else {
        held_[slice][page / 64] &= ~bit;
      }
    }
    used_pages_[slice] = held ? used_pages_[slice] + pages : used_pages_[slice] - pages;
  }
}

int32_t PageTable::reserve(uint64_t slice_mask, uint32_t pages, uint64_t bytes_per_slice, uint32_t client,
                           uint64_t* out_id, Shortage* shortage) {
  const bool single = std::has_single_bit(slice_mask);
  uint32_t first_page = 0;
  const bool fits = pages <= pages_ &&
                    (single ? find_high(slice_mask, pages, &first_page) : find_low(slice_mask, pages, &first_page));
  if (!fits || (free_head_ == 0 && used_ == kMaxReservations)) {
    *shortage = {};
    shortage->largest_run = UINT32_MAX;
    for (uint32_t slice = 0; slice < slices_; ++slice) {
      if (free_pages(slice) > shortage->best_free_pages) shortage->best_free_pages = free_pages(slice);
      if ((slice_mask >> slice & 1) == 0) continue;
      const uint32_t run = largest_run(slice);
      if (run >= shortage->largest_run) continue;
      shortage->largest_run = run;
      shortage->slice = slice;
      shortage->free_pages = free_pages(slice);
    }
    return JAL_ERROR_OUT_OF_DEVICE_MEMORY;
  }
  uint32_t index = used_;
  if (free_head_ != 0) {
    index = free_head_ - 1;
    free_head_ = slots_[index].next_free;
  } else {
    ++used_;
  }
  Reservation& slot = slots_[index];
  slot.slice_mask = slice_mask;
  slot.bytes_per_slice = bytes_per_slice;
  slot.first_page = first_page;
  slot.pages = pages;
  slot.client = static_cast<uint16_t>(client);
  slot.next_free = 0;
  mark(slice_mask, first_page, pages, true);
  for (uint64_t rest = slice_mask; rest != 0; rest &= rest - 1) {
    uint32_t* owner = owner_[std::countr_zero(rest)];
    for (uint32_t page = first_page; page < first_page + pages; ++page) owner[page] = index + 1;
  }
  *out_id = id_of(index);
  return JAL_OK;
}

Reservation* PageTable::find(uint64_t id, uint32_t client) {
  const uint64_t number = id & 0xffffffffu;
  if (number == 0 || number > used_) return nullptr;
  Reservation& slot = slots_[number - 1];
  if (slot.slice_mask == 0 || slot.client != client || slot.generation != id >> 32) return nullptr;
  return &slot;
}

void PageTable::release(uint64_t id) {
  const uint32_t index = static_cast<uint32_t>(id & 0xffffffffu) - 1;
  Reservation& slot = slots_[index];
  mark(slot.slice_mask, slot.first_page, slot.pages, false);
  for (uint64_t rest = slot.slice_mask; rest != 0; rest &= rest - 1) {
    uint32_t* owner = owner_[std::countr_zero(rest)];
    for (uint32_t page = slot.first_page; page < slot.first_page + slot.pages; ++page) owner[page] = 0;
  }
  slot.slice_mask = 0;
  ++slot.generation;
  slot.next_free = free_head_;
  free_head_ = index + 1;
}

const Reservation* PageTable::covering(uint32_t client, uint32_t slice, uint64_t offset, uint64_t bytes) const {
  const uint64_t page = offset >> JAL_PAGE_SHIFT;
  if (slice >= slices_ || page >= pages_) return nullptr;
  const uint32_t owner = owner_[slice][page];
  if (owner == 0) return nullptr;
  const Reservation& slot = slots_[owner - 1];
  const uint64_t into = offset - (static_cast<uint64_t>(slot.first_page) << JAL_PAGE_SHIFT);
  if (slot.client != client || into > slot.bytes_per_slice || bytes > slot.bytes_per_slice - into) return nullptr;
  return &slot;
}

bool PageTable::is_foreign(uint32_t client, uint32_t slice, uint64_t offset) const {
  const uint64_t page = offset >> JAL_PAGE_SHIFT;
  if (slice >= slices_ || page >= pages_) return false;
  const uint32_t owner = owner_[slice][page];
  return owner != 0 && slots_[owner - 1].client != client;
}

uint32_t PageTable::client_pages(uint32_t client, uint32_t slice) const {
  uint32_t pages = 0;
  for (uint32_t i = 0; i < used_; ++i) {
    if (slots_[i].client == client && (slots_[i].slice_mask >> slice & 1) != 0) pages += slots_[i].pages;
  }
  return pages;
}

uint32_t PageTable::largest_run(uint32_t slice) const {
  uint32_t run = 0;
  uint32_t best = 0;
  for (uint32_t word = 0; word * 64u < pages_; ++word) {
    uint64_t bits = taken(1ull << slice, word);
    for (uint32_t bit = 0; bit < 64; ++bit, bits >>= 1) {
      run = (bits & 1) != 0 ? 0 : run + 1;
      if (run > best) best = run;
    }
  }
  return best;
}

uint64_t PageTable::used_bytes() const {
  uint64_t pages = 0;
  for (uint32_t slice = 0; slice < slices_; ++slice) pages += used_pages_[slice];
  return pages << JAL_PAGE_SHIFT;
}

}  // namespace jal::fw
