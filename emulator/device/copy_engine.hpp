// The device's copy engine: HBM <-> host, HBM <-> HBM, fill; functional at once, with modelled time and energy.
//
// What it is not: a core's DMA (that is a core verb). Invariant: transfers serialise in device time; a transfer is
// checked whole before a byte moves; each slice's range lies within one allocation of the client. Time: copy_start +
// max(bytes / host link, bytes per slice / the slice's HBM rate, bytes per slice / NoC link between slices). Threads:
// the stepping thread.
#pragma once
#include <cstdint>
#include <jal/hal/dma.hpp>

#include "emulator/device/energy_meter.hpp"
#include "emulator/device/trace_tap.hpp"
#include "emulator/hbm/hbm.hpp"
#include "emulator/model/model.hpp"

namespace jal::emu {

class CopyEngine {
 public:
  CopyEngine(const Model& model, Hbm& hbm, EnergyMeter& meter, TraceTap& trace);

  /// See jal/hal/dma.hpp. BAD_ADDRESS, FOREIGN_ADDRESS, BAD_SLICE_MASK or UNALIGNED_ADDRESS with fault.address and
  /// fault.text; then nothing moved and no time passed.
  std::int32_t run(const hal::DmaRequest& request, hal::DmaResult& out, hal::FaultReport& fault);

 private:
  /// One end of a transfer: host memory, or up to one range in each slice, in the order of the linear side.
  struct Side {
    Side() {  // the arrays' other elements are never read, and zeroing them costs as much as a small copy
      data[0] = nullptr;
      slice[0] = 0;
    }
    bool is_host = false;
    std::uint32_t parts = 0;
    std::byte* data[JAL_MAX_SLICES];  // the first `parts`
    std::uint32_t slice[JAL_MAX_SLICES];
  };

  std::int32_t resolve(const hal::DmaRequest& request, std::uint64_t address, bool walks, const char* role, Side& side,
                       hal::FaultReport& fault) const;
  std::int32_t refuse(const hal::DmaRequest& request, std::int32_t status, std::uint64_t address, const char* role,
                      const char* why, hal::FaultReport& fault) const;
  std::uint64_t duration_ps(const hal::DmaRequest& request, const Side& dst, const Side* src) const;
  void charge(const hal::DmaRequest& request, const Side& dst, const Side* src);
  std::uint32_t hops(std::uint32_t from, std::uint32_t to) const;

  const Model& model_;
  Hbm& hbm_;
  EnergyMeter& meter_;
  TraceTap& trace_;
  std::uint64_t free_at_ps_ = 0;
};

}  // namespace jal::emu
