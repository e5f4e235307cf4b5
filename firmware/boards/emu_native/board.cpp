// Binds the HAL to an emulated device. Contracts: firmware/hal/include/jal/hal.
#include "firmware/boards/emu_native/board.hpp"

#include <jal/abi/status.h>
#include <time.h>

#include <algorithm>
#include <cstring>
#include <jal/hal/clock.hpp>
#include <jal/hal/cores.hpp>
#include <jal/hal/dma.hpp>
#include <jal/hal/fabric.hpp>
#include <jal/hal/memory.hpp>
#include <jal/hal/power.hpp>
#include <string>

namespace jal::hal {
namespace {

std::uint64_t clock_ns(clockid_t clock) {
  timespec now{};
  clock_gettime(clock, &now);
  return static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000u + static_cast<std::uint64_t>(now.tv_nsec);
}

}  // namespace

const jal_chip_info& chip_info(Board& board) { return board.device.chip_info(); }
uint64_t features(Board&) { return JAL_FEATURE_HOST_VA | JAL_FEATURE_EMULATED | JAL_FEATURE_NATIVE; }
void* client_region(Board& board, uint32_t client, uint64_t* out_bytes) {
  return board.device.client_region(client, out_bytes);
}
void* telemetry_page(Board& board) { return board.device.telemetry_page(); }
void* log_ring(Board& board) { return board.device.log_ring(); }

const FirmwareCosts& firmware_costs(Board& board) { return board.device.firmware_costs(); }
uint64_t host_monotonic_ns(Board&) { return clock_ns(CLOCK_MONOTONIC); }
uint64_t host_unix_ns(Board&) { return clock_ns(CLOCK_REALTIME); }

int32_t code_load(Board& board, const void* module, uint64_t bytes, uint32_t* out_code, FaultReport& fault) {
  return board.device.cores().load_code(module, bytes, out_code, fault);
}
void code_unload(Board& board, uint32_t code) { board.device.cores().unload_code(code); }
int32_t cores_start(Board& board, const CoreJob& job, CoreJobResult& out) { return board.device.cores().run(job, out); }
int32_t cores_poll(Board&, CoreJobResult& out) {
  // cores_start() completes every job, so there is never one to poll.
  out.status = JAL_ERROR_INTERNAL;
  return JAL_ERROR_INTERNAL;
}

int32_t dma_run(Board& board, const DmaRequest& request, DmaResult& out, FaultReport& fault) {
  return board.device.copies().run(request, out, fault);
}

uint32_t fabric_ports(Board&) { return 0; }

int32_t memory_map(Board& board, const MapRequest& request, uint32_t* out_extent, FaultReport& fault) {
  std::string error;
  const int32_t status = board.device.hbm().map(request.slice_mask, request.first_page, request.pages,
                                                request.bytes_per_slice, request.client, out_extent, &error);
  if (status != JAL_OK) {
    fault = {};
    fault.status = status;
    std::memcpy(fault.text, error.data(), std::min(error.size(), sizeof fault.text - 1));
  }
  return status;
}
void memory_unmap(Board& board, uint32_t extent) { board.device.hbm().unmap(extent); }
void memory_budget(Board& board, uint64_t* out_limit, uint64_t* out_used) {
  *out_limit = board.device.budget().limit();
  *out_used = board.device.budget().used();
}

uint64_t unit_static_microwatts(Board& board, uint32_t unit) { return board.device.meter().static_uw(unit); }
uint32_t unit_state(Board& board, uint32_t unit) { return board.device.meter().state(unit); }
void meter_add_fj(Board& board, uint32_t unit, uint64_t energy_fj) { board.device.meter().add_fj(unit, energy_fj); }
void meter_advance_ps(Board& board, uint64_t dt_ps) { board.device.meter().advance_ps(dt_ps); }
uint64_t meter_read_nj(Board& board, uint32_t unit) { return board.device.meter().read_nj(unit); }

}  // namespace jal::hal
