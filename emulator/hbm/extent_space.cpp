// Contract: extent_space.hpp.
#include "emulator/hbm/extent_space.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <iterator>

#include "emulator/hbm/host_budget.hpp"

namespace jal::emu {

void* map_lazy_zeroes(std::uint64_t bytes) noexcept {
  void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return memory == MAP_FAILED ? nullptr : memory;
}

ExtentSpace::~ExtentSpace() {
  if (reservation_ == nullptr) return;
  munmap(reservation_, bytes_ + kGranuleBytes);
  munmap(granules_, bytes_ / kGranuleBytes * sizeof *granules_);
}

bool ExtentSpace::reserve(std::string* error) {
  const std::uint64_t bytes = bytes_ + kGranuleBytes;
  void* memory = mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  void* granules = memory == MAP_FAILED ? nullptr : map_lazy_zeroes(bytes_ / kGranuleBytes * sizeof *granules_);
  if (granules == nullptr) {
    *error = "the system refuses " + bytes_text(bytes) + " of address space (" + std::strerror(errno) +
             "); raise the limit of address space (ulimit -v)";
    if (memory != MAP_FAILED) munmap(memory, bytes);
    return false;
  }
  reservation_ = memory;
  granules_ = static_cast<Granule*>(granules);
  const auto address = reinterpret_cast<std::uintptr_t>(memory);
  base_ = static_cast<std::byte*>(memory) + (kGranuleBytes - address % kGranuleBytes) % kGranuleBytes;
  // Also where the system gives huge pages to everyone. A kernel without them refuses.
  madvise(base_, bytes_, MADV_NOHUGEPAGE);
  // What a child of fork would inherit is a copy nobody can use.
  madvise(reservation_, bytes, MADV_DONTFORK);
  add_hole(0, bytes_);
  return true;
}

void ExtentSpace::add_hole(std::uint64_t offset, std::uint64_t bytes) {
  by_offset_.emplace(offset, bytes);
  by_size_.emplace(bytes, offset);
}

void ExtentSpace::remove_hole(std::map<std::uint64_t, std::uint64_t>::iterator hole) {
  by_size_.erase({hole->second, hole->first});
  by_offset_.erase(hole);
}

bool ExtentSpace::open_granules(std::uint64_t offset, std::uint64_t bytes, std::string* error) {
  const std::uint64_t first = offset / kGranuleBytes, last = (offset + bytes - 1) / kGranuleBytes;
  // Only the first and the last granule can hold other extents.
  std::uint64_t from = first, to = last + 1;
  while (from < to && granules_[from].users != 0) ++from;
  while (to > from && granules_[to - 1].users != 0) --to;
  if (from < to && mprotect(base_ + from * kGranuleBytes, (to - from) * kGranuleBytes, PROT_READ | PROT_WRITE) != 0) {
    *error = std::string("the system refuses access to ") + bytes_text(bytes) + " of host memory (" +
             std::strerror(errno) + "); free memory, or look at vm.max_map_count and vm.overcommit_memory";
    return false;
  }
  for (std::uint64_t granule = first; granule <= last; ++granule) ++granules_[granule].users;
  return true;
}

void ExtentSpace::close_granules(std::uint64_t offset, std::uint64_t bytes) noexcept {
  const std::uint64_t end = offset + bytes, first = offset / kGranuleBytes, last = (end - 1) / kGranuleBytes;
  std::uint64_t from = first, to = last + 1;
  for (std::uint64_t granule = first; granule <= last; ++granule) --granules_[granule].users;
  if (granules_[first].users != 0) {
    std::memset(base_ + offset, 0, std::min(end, (first + 1) * kGranuleBytes) - offset);
    ++from;
  }
  if (last != first && granules_[last].users != 0) {
    std::memset(base_ + last * kGranuleBytes, 0, end - last * kGranuleBytes);
    --to;
  }
  if (from >= to) return;
  std::byte* start = base_ + from * kGranuleBytes;
  const std::uint64_t whole = (to - from) * kGranuleBytes;
  // The pages go back to the system and read zero when touched again. Should the system refuse, zero them by hand.
  if (madvise(start, whole, MADV_DONTNEED) != 0) std::memset(start, 0, whole);
  madvise(start, whole, MADV_NOHUGEPAGE);
  for (std::uint64_t granule = from; granule < to; ++granule) granules_[granule].is_huge = 0;
  mprotect(start, whole, PROT_NONE);
}

void ExtentSpace::expect_write(const std::byte* data, std::uint64_t bytes) noexcept {
  if (bytes < kDenseBytes) return;
  const std::uint64_t offset = static_cast<std::uint64_t>(data - base_);
  const std::uint64_t end = (offset + bytes - 1) / kGranuleBytes + 1;
  for (std::uint64_t from = offset / kGranuleBytes; from < end;) {
    std::uint64_t to = from;
    while (to < end && granules_[to].is_huge == 0) granules_[to++].is_huge = 1;
    if (to > from) madvise(base_ + from * kGranuleBytes, (to - from) * kGranuleBytes, MADV_HUGEPAGE);
    from = std::max(to, from + 1);
  }
}

std::byte* ExtentSpace::allocate(std::uint64_t bytes, std::string* error) {
  if (base_ == nullptr && !reserve(error)) return nullptr;
  const std::uint64_t want = taken(bytes);
  const auto found = by_size_.lower_bound({want, 0});
  if (found == by_size_.end()) {
    *error = "no hole of " + bytes_text(want) + " is left in " + bytes_text(bytes_) +
             " of host address space; free memory and allocate the largest parts first";
    return nullptr;
  }
  const auto [size, offset] = *found;
  if (!open_granules(offset, want, error)) return nullptr;
  remove_hole(by_offset_.find(offset));
  if (size > want) add_hole(offset + want, size - want);
  return base_ + offset;
}

void ExtentSpace::release(std::byte* data, std::uint64_t bytes) noexcept {
  std::uint64_t offset = static_cast<std::uint64_t>(data - base_), size = taken(bytes);
  close_granules(offset, size);
  auto next = by_offset_.lower_bound(offset);
  if (next != by_offset_.begin()) {
    const auto before = std::prev(next);
    if (before->first + before->second == offset) {
      offset = before->first;
      size += before->second;
      remove_hole(before);
    }
  }
  if (next != by_offset_.end() && offset + size == next->first) {
    size += next->second;
    remove_hole(next);
  }
  add_hole(offset, size);
}

}  // namespace jal::emu
