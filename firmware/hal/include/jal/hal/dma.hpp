// Copy engine of the device: HBM <-> host, HBM <-> HBM, fill.
#pragma once
#include <jal/hal/board.hpp>

namespace jal::hal {

/// One transfer. Addresses as in jal/abi/address.h; with slice_mask != 0 the HBM side visits slices (packet.h).
struct DmaRequest {
  uint64_t dst = 0, src = 0, bytes = 0, slice_mask = 0;
  uint32_t client = 0;  ///< whose host memory; HBM ranges were checked against this client's pages by the firmware
  bool fill = false;    ///< src unused, pattern repeated
  uint32_t pattern = 0;
  uint32_t queue = 0;  ///< for traces
  uint64_t tag = 0;
  uint64_t start_ps = 0;  ///< earliest device time
};

/// Performs the transfer now (functionally) and returns its modelled end. 0 or a status with `fault` filled; on failure
/// nothing is promised of dst. The engine serialises: end >= the previous transfer's end.
struct DmaResult {
  uint64_t begin_ps = 0, end_ps = 0;
};
int32_t dma_run(Board&, const DmaRequest&, DmaResult& out, FaultReport& fault);

}  // namespace jal::hal
