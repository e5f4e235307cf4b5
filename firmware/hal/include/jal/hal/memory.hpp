// Page tables: which host bytes stand behind (slice, page). The firmware owns the pages, the board maps them.
#pragma once
#include <jal/hal/board.hpp>

namespace jal::hal {

/// One grant: `pages` pages from page `first_page` in every slice of the mask, of which `bytes_per_slice` bytes are
/// used in each slice (<= pages * 64 KiB; the rest of the last page is a guard). Backed by one contiguous zeroed host
/// extent in which slice i of the mask (ascending) starts at i * bytes_per_slice rounded up to 64. bytes_per_slice is a
/// multiple of 64.
struct MapRequest {
  uint64_t slice_mask = 0;
  uint32_t first_page = 0, pages = 0;
  uint64_t bytes_per_slice = 0;
  uint32_t client = 0;
};

/// Maps it. HOST_BUDGET (with `fault.text`) if the host-memory budget is spent; then nothing is mapped. *out_extent
/// names it for unmap.
int32_t memory_map(Board&, const MapRequest&, uint32_t* out_extent, FaultReport& fault);

/// Unmaps and scrubs. extent must be live.
void memory_unmap(Board&, uint32_t extent);

/// Host budget in bytes and what is charged.
void memory_budget(Board&, uint64_t* out_limit, uint64_t* out_used);

}  // namespace jal::hal
