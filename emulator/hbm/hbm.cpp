// Contract: hbm.hpp. The page table holds, per (slice, page), the number of an extent; the extent says the rest.
#include "emulator/hbm/hbm.hpp"

#include <jal/abi/status.h>
#include <sys/mman.h>

#include <bit>
#include <cstdio>
#include <cstdlib>

#include "emulator/hbm/extent_space.hpp"
#include "emulator/hbm/host_budget.hpp"

namespace jal::emu {
namespace {

constexpr std::uint32_t kNoExtent = 0;  // numbers start at 1: an untouched page table entry names none

struct Extent {
  std::byte* data = nullptr;  // nullptr: free
  std::uint64_t slice_mask = 0;
  std::uint64_t bytes_per_slice = 0;
  std::uint64_t stride = 0;  // bytes_per_slice rounded up to 64
  std::uint32_t first_page = 0, pages = 0;
  std::uint32_t client = 0;
  std::uint32_t next_free = kNoExtent;

  std::uint64_t host_bytes() const { return stride * static_cast<std::uint64_t>(std::popcount(slice_mask)); }
  std::uint64_t base(std::uint32_t slice) const {
    return JAL_ADDRESS_HBM(slice, static_cast<std::uint64_t>(first_page) << JAL_PAGE_SHIFT);
  }
};

std::string hex(std::uint64_t value) {
  char text[24];
  std::snprintf(text, sizeof text, "0x%llx", static_cast<unsigned long long>(value));
  return text;
}

}  // namespace

struct Hbm::State {
  State(std::uint32_t slice_count, std::uint64_t bytes, HostBudget& shared)
      : slices(slice_count),
        pages(static_cast<std::uint32_t>(bytes >> JAL_PAGE_SHIFT)),
        // Twice the chip: a grant is contiguous over its slices, so holes that pages on the chip would fill may not fit
        // here.
        space(2 * slice_count * bytes),
        budget(shared) {}
  ~State() {
    for (std::uint32_t number = 1; number <= highest; ++number) {
      if (extents[number].data != nullptr) budget.refund(ExtentSpace::taken(extents[number].host_bytes()));
    }
    if (table != nullptr) munmap(table, table_bytes());
    if (extents != nullptr) munmap(extents, extents_bytes());
  }

  std::uint64_t table_bytes() const { return sizeof(std::uint32_t) * slices * pages; }
  std::uint64_t extents_bytes() const { return sizeof(Extent) * (static_cast<std::uint64_t>(slices) * pages + 1); }

  /// Tables are made at the first grant, so that an idle chip costs nothing.
  bool make_tables() {
    if (table == nullptr) table = static_cast<std::uint32_t*>(map_lazy_zeroes(table_bytes()));
    if (extents == nullptr) extents = static_cast<Extent*>(map_lazy_zeroes(extents_bytes()));
    return table != nullptr && extents != nullptr;
  }

  template <typename Visit>
  void for_each_slice(std::uint64_t mask, Visit&& visit) const {
    for (; mask != 0; mask &= mask - 1) visit(static_cast<std::uint32_t>(std::countr_zero(mask)));
  }

  std::string refusal(std::uint64_t slice_mask, std::uint32_t first_page, std::uint32_t count,
                      std::uint64_t bytes_per_slice) const {
    const std::uint64_t all = slices == 64 ? ~0ull : (1ull << slices) - 1;
    if (slice_mask == 0 || (slice_mask & ~all) != 0) {
      return "slice mask " + hex(slice_mask) + " is not of the chip's " + std::to_string(slices) + " slices";
    }
    if (count == 0 || first_page >= pages || count > pages - first_page) {
      return "pages " + std::to_string(first_page) + " + " + std::to_string(count) + " are not within the slice's " +
             std::to_string(pages);
    }
    if (bytes_per_slice == 0 || bytes_per_slice % 64 != 0 ||
        bytes_per_slice > static_cast<std::uint64_t>(count) << JAL_PAGE_SHIFT) {
      return std::to_string(bytes_per_slice) + " bytes per slice do not suit " + std::to_string(count) + " pages of " +
             std::to_string(JAL_PAGE_BYTES);
    }
    std::string taken;
    for_each_slice(slice_mask, [&](std::uint32_t slice) {
      for (std::uint32_t page = first_page; page < first_page + count && taken.empty(); ++page) {
        if (table[static_cast<std::uint64_t>(slice) * pages + page] != kNoExtent) {
          taken = "page " + std::to_string(page) + " of slice " + std::to_string(slice) + " is mapped already";
        }
      }
    });
    return taken;
  }

  void fill_table(const Extent& extent, std::uint32_t number) {
    for_each_slice(extent.slice_mask, [&](std::uint32_t slice) {
      std::uint32_t* entry = table + static_cast<std::uint64_t>(slice) * pages + extent.first_page;
      for (std::uint32_t page = 0; page < extent.pages; ++page) entry[page] = number;
    });
  }

  const std::uint32_t slices, pages;
  std::uint32_t* table = nullptr;
  Extent* extents = nullptr;
  std::uint32_t highest = 0;  // number ever used
  std::uint32_t first_free = kNoExtent;
  ExtentSpace space;
  HostBudget& budget;
};

Hbm::Hbm(std::uint32_t slices, std::uint64_t slice_bytes, HostBudget& budget)
    : state_(std::make_unique<State>(slices, slice_bytes, budget)) {}
Hbm::~Hbm() = default;

std::int32_t Hbm::map(std::uint64_t slice_mask, std::uint32_t first_page, std::uint32_t pages,
                      std::uint64_t bytes_per_slice, std::uint32_t client, std::uint32_t* out_extent,
                      std::string* error) {
  State& s = *state_;
  if (!s.make_tables()) {
    *error =
        "the system refuses " + bytes_text(s.table_bytes() + s.extents_bytes()) + " of address space for page tables";
    return JAL_ERROR_OUT_OF_HOST_MEMORY;
  }
  *error = s.refusal(slice_mask, first_page, pages, bytes_per_slice);
  if (!error->empty()) return JAL_ERROR_INTERNAL;

  Extent extent;
  extent.slice_mask = slice_mask;
  extent.bytes_per_slice = bytes_per_slice;
  extent.stride = (bytes_per_slice + 63) / 64 * 64;
  extent.first_page = first_page;
  extent.pages = pages;
  extent.client = client;
  const std::uint64_t charge = ExtentSpace::taken(extent.host_bytes());
  if (!s.budget.charge(charge)) {
    const std::uint64_t limit = s.budget.limit(), used = s.budget.used();
    *error = "map " + bytes_text(charge) + " of HBM: the host budget is " + bytes_text(limit) + ", " +
             bytes_text(used) + " are in use; free memory, or raise JAL_HOST_BUDGET";
    return JAL_ERROR_HOST_BUDGET;
  }
  extent.data = s.space.allocate(extent.host_bytes(), error);
  if (extent.data == nullptr) {
    s.budget.refund(charge);
    return JAL_ERROR_OUT_OF_HOST_MEMORY;
  }
  std::uint32_t number = s.first_free;
  if (number != kNoExtent) {
    s.first_free = s.extents[number].next_free;
  } else {
    number = ++s.highest;
  }
  s.extents[number] = extent;
  s.fill_table(extent, number);
  *out_extent = number;
  return JAL_OK;
}

void Hbm::unmap(std::uint32_t number) {
  State& s = *state_;
  if (number == kNoExtent || number > s.highest || s.extents[number].data == nullptr) {
    // The firmware unmaps what it mapped, once; anything else is its bug, and going on would hand out shared memory.
    std::fprintf(stderr, "jal-emulator: unmap of extent %u, which is not live\n", number);
    std::abort();
  }
  Extent& extent = s.extents[number];
  s.fill_table(extent, kNoExtent);
  s.space.release(extent.data, extent.host_bytes());
  s.budget.refund(ExtentSpace::taken(extent.host_bytes()));
  extent = Extent{};
  extent.next_free = s.first_free;
  s.first_free = number;
}

Hbm::Window Hbm::resolve(std::uint32_t client, std::uint64_t address) const noexcept {
  const State& s = *state_;
  Window window;
  const std::uint32_t slice = JAL_ADDRESS_SLICE(address), offset = JAL_ADDRESS_OFFSET(address),
                      page = offset >> JAL_PAGE_SHIFT;
  if (JAL_ADDRESS_SPACE(address) != JAL_SPACE_HBM || slice >= s.slices || page >= s.pages || s.table == nullptr)
    return window;
  const std::uint32_t number = s.table[static_cast<std::uint64_t>(slice) * s.pages + page];
  if (number == kNoExtent) return window;
  const Extent& extent = s.extents[number];
  if (extent.client != client) {
    window.foreign = true;
    return window;
  }
  const std::uint64_t within = offset - (static_cast<std::uint64_t>(extent.first_page) << JAL_PAGE_SHIFT);
  window.grant_base = extent.base(slice);
  window.grant_bytes = extent.bytes_per_slice;
  if (within >= extent.bytes_per_slice) return window;  // the guard behind the used part
  // Slices from 0 on are the rule, and counting bits is a library call on the oldest processors this runs on.
  const std::uint64_t mask = extent.slice_mask;
  const int rank =
      (mask & (mask + 1)) == 0 ? static_cast<int>(slice) : std::popcount(mask & ((std::uint64_t{1} << slice) - 1));
  window.data = extent.data + static_cast<std::uint64_t>(rank) * extent.stride + within;
  window.bytes = extent.bytes_per_slice - within;
  return window;
}

void Hbm::expect_write(const std::byte* data, std::uint64_t bytes) noexcept { state_->space.expect_write(data, bytes); }

Hbm::Window Hbm::nearest(std::uint32_t client, std::uint64_t address) const noexcept {
  const State& s = *state_;
  Window best;
  std::uint64_t best_distance = UINT64_MAX;
  for (std::uint32_t number = 1; number <= s.highest; ++number) {
    const Extent& extent = s.extents[number];
    if (extent.data == nullptr || extent.client != client) continue;
    s.for_each_slice(extent.slice_mask, [&](std::uint32_t slice) {
      const std::uint64_t base = extent.base(slice), last = base + extent.bytes_per_slice - 1;
      const std::uint64_t distance = address < base ? base - address : address > last ? address - last : 0;
      if (distance >= best_distance) return;
      best_distance = distance;
      best.grant_base = base;
      best.grant_bytes = extent.bytes_per_slice;
    });
  }
  return best;
}

}  // namespace jal::emu
