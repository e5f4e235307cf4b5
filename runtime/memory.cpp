// Contract: memory.hpp.
#include "runtime/memory.hpp"

#include <jal/abi/address.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>

#include "driver/base/error_frames.hpp"
#include "runtime/stream.hpp"

namespace jal::rt {

using drv::add_frame;
using drv::fail;

std::string bytes_text(std::uint64_t bytes) {
  constexpr const char* kUnits[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  double value = static_cast<double>(bytes);
  std::size_t unit = 0;
  while (value >= 1024 && unit + 1 < std::size(kUnits)) {
    value /= 1024;
    ++unit;
  }
  return unit == 0 ? fmt::format("{} B", bytes) : fmt::format("{:.4g} {}", value, kUnits[unit]);
}

Result<std::unique_ptr<Memory>> Memory::alloc_hbm(Device& device, std::uint64_t slice_mask,
                                                  std::uint64_t bytes_per_slice, bool is_pinned) {
  const jal_chip_info& chip = device.chip();
  if (slice_mask == 0) slice_mask = device.slice_mask();
  if ((slice_mask & ~device.slice_mask()) != 0) {
    return fail(JAL_ERROR_BAD_SLICE_MASK, "slice mask {:#x}: device {} has slices 0..{}", slice_mask, device.index(),
                chip.slices - 1);
  }
  if (bytes_per_slice == 0) {
    return fail(JAL_ERROR_INVALID_ARGUMENT, "bytes_per_slice is 0; an allocation has at least 1 byte");
  }
  if (bytes_per_slice > chip.slice_bytes) {
    return fail(JAL_ERROR_OUT_OF_DEVICE_MEMORY,
                "{} per slice ({} bytes): a slice of device {} has {} in all; spread the data over more slices",
                bytes_text(bytes_per_slice), bytes_per_slice, device.index(), bytes_text(chip.slice_bytes));
  }
  const std::uint64_t used = (bytes_per_slice + 63) / 64 * 64;
  const std::uint64_t pages = (used + JAL_PAGE_BYTES - 1) / JAL_PAGE_BYTES;
  const auto answer = device.session().ask(JAL_MAILBOX_PAGES_ALLOC, {slice_mask, pages, used, 0});
  if (!answer.ok()) return add_frame(answer.status(), "allocating memory of device {}", device.index());
  const auto& words = answer->word;
  if (answer->status == JAL_ERROR_OUT_OF_DEVICE_MEMORY) {
    return fail(
        answer->status,
        "{} in each slice of mask {:#x}: slice {} of device {} has {} free, at most {} in one piece; the emptiest "
        "slice has {}; free memory there or place it on other slices",
        bytes_text(bytes_per_slice), slice_mask, words[0], device.index(), bytes_text(words[2] * JAL_PAGE_BYTES),
        bytes_text(words[1] * JAL_PAGE_BYTES), bytes_text(words[3] * JAL_PAGE_BYTES));
  }
  if (answer->status == JAL_ERROR_HOST_BUDGET) {
    return fail(answer->status,
                "{} in each of {} slices: the emulator may take {} of host memory for HBM and has taken {}; raise "
                "JAL_HOST_BUDGET or free memory; silicon would have granted it",
                bytes_text(bytes_per_slice), std::popcount(slice_mask), bytes_text(words[0]), bytes_text(words[1]));
  }
  if (answer->status != JAL_OK) {
    return refused(*answer, "allocating {} in each slice of mask {:#x} of device {}", bytes_text(bytes_per_slice),
                   slice_mask, device.index());
  }
  std::unique_ptr<Memory> memory(new Memory(device));
  memory->slice_mask_ = slice_mask;
  memory->bytes_per_slice_ = bytes_per_slice;
  memory->granted_per_slice_ = pages * JAL_PAGE_BYTES;
  memory->offset_ = words[0];
  memory->reservation_ = words[1];
  memory->is_pinned_ = is_pinned;
  return memory;
}

Result<std::unique_ptr<Memory>> Memory::alloc_host(Device& device, std::uint64_t bytes, bool is_pinned,
                                                   bool must_lock) {
  if (bytes == 0) return fail(JAL_ERROR_INVALID_ARGUMENT, "host memory of 0 bytes; at least 1");
  const auto page = static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
  if (bytes > UINT64_MAX - page) {
    return fail(JAL_ERROR_OUT_OF_HOST_MEMORY, "host memory of {} bytes is more than any address space has", bytes);
  }
  const std::uint64_t granted = (bytes + page - 1) / page * page;
  void* pointer = mmap(nullptr, granted, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (pointer == MAP_FAILED) {
    return fail(JAL_ERROR_OUT_OF_HOST_MEMORY, "host memory of {}: {}; free host memory", bytes_text(bytes),
                std::strerror(errno));
  }
  if (is_pinned && mlock(pointer, granted) != 0 && must_lock) {
    const int reason = errno;
    munmap(pointer, granted);
    return fail(JAL_ERROR_NO_PERMISSION,
                "locking {} into memory: {}; raise the limit (ulimit -l) or drop JAL_MEMORY_PINNED", bytes_text(bytes),
                std::strerror(reason));
  }
  std::unique_ptr<Memory> memory(new Memory(device));
  memory->bytes_per_slice_ = bytes;
  memory->granted_per_slice_ = granted;
  memory->host_pointer_ = pointer;
  memory->is_pinned_ = is_pinned;
  return memory;
}

Memory::~Memory() {
  if (host_pointer_ != nullptr) munmap(host_pointer_, granted_per_slice_);
}

Status Memory::free() {
  if (host_pointer_ != nullptr) {
    if (!device_.has_pending()) return {};
    return fail(JAL_ERROR_MEMORY_BUSY,
                "device {} has pending work that may use the memory; synchronise its streams first", device_.index());
  }
  const auto answer = device_.session().ask(JAL_MAILBOX_PAGES_FREE, {reservation_});
  // A lost device has no memory to give back.
  if (answer.code() == JAL_ERROR_DEVICE_LOST) return {};
  if (!answer.ok()) return add_frame(answer.status(), "freeing memory of device {}", device_.index());
  if (answer->status == JAL_OK) return {};
  if (answer->status == JAL_ERROR_MEMORY_BUSY) {
    return fail(answer->status, "device {} has pending work that may use the memory; synchronise its streams first",
                device_.index());
  }
  return refused(*answer, "freeing {} per slice at offset {:#x} of device {}", bytes_text(bytes_per_slice_), offset_,
                 device_.index());
}

std::uint64_t Memory::address() const {
  if (host_pointer_ != nullptr) return host_address(host_pointer_);
  return JAL_ADDRESS_HBM(std::countr_zero(slice_mask_), offset_);
}

Status Memory::address_in(std::uint32_t slice, std::uint64_t offset, std::uint64_t* out) const {
  if (offset >= bytes_per_slice_) {
    return fail(JAL_ERROR_BAD_ADDRESS, "offset {} is outside the memory's {} bytes per slice", offset,
                bytes_per_slice_);
  }
  if (host_pointer_ != nullptr) {
    *out = host_address(host_pointer_) + offset;
    return {};
  }
  if (slice >= JAL_MAX_SLICES || (slice_mask_ >> slice & 1) == 0) {
    return fail(JAL_ERROR_BAD_SLICE_MASK, "slice {}: the memory lies in the slices of mask {:#x}", slice, slice_mask_);
  }
  *out = JAL_ADDRESS_HBM(slice, offset_ + offset);
  return {};
}

Result<MemoryLayers> query_memory(Device& device, std::uint32_t slice) {
  const jal_chip_info& chip = device.chip();
  const bool is_chip = slice == UINT32_MAX;
  if (!is_chip && slice >= chip.slices) {
    return fail(JAL_ERROR_BAD_SLICE_MASK, "slice {}: device {} has slices 0..{}", slice, device.index(),
                chip.slices - 1);
  }
  MemoryLayers layers;
  layers.largest_free = UINT64_MAX;
  for (std::uint32_t s = is_chip ? 0 : slice; s < (is_chip ? chip.slices : slice + 1); ++s) {
    const auto answer = device.session().ask(JAL_MAILBOX_PAGES_QUERY, {s});
    if (!answer.ok()) return add_frame(answer.status(), "asking for the memory of device {}", device.index());
    if (answer->status != JAL_OK)
      return refused(*answer, "asking for the memory of slice {} of device {}", s, device.index());
    const auto& words = answer->word;
    layers.free += words[0] * JAL_PAGE_BYTES;
    layers.mine += words[1] * JAL_PAGE_BYTES;
    layers.largest_free = std::min(layers.largest_free, words[2] * JAL_PAGE_BYTES);
    layers.usable += words[3] * JAL_PAGE_BYTES;
    layers.budget = words[4];
    layers.budget_used = words[5];
  }
  layers.chip = is_chip ? chip.chip_bytes : chip.chip_bytes / chip.slices;
  layers.reserved = layers.chip - std::min(layers.chip, layers.usable);
  return layers;
}

}  // namespace jal::rt
