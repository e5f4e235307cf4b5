// The plain board's half of the HAL. See plain_board.hpp.
#include "tests/unit/firmware/protocol/plain_board.hpp"

#include <algorithm>
#include <bit>
#include <cstdio>
#include <jal/hal/fabric.hpp>
#include <jal/hal/power.hpp>

namespace jal::hal {

const jal_chip_info& chip_info(Board& b) { return b.chip; }
std::uint64_t features(Board& b) { return b.offered; }
void* client_region(Board& b, std::uint32_t client, std::uint64_t* out_bytes) {
  const auto it = b.regions.find(client);
  if (it == b.regions.end()) return nullptr;
  *out_bytes = it->second.size() * 8;
  return it->second.data();
}
void* telemetry_page(Board& b) { return b.has_telemetry ? &b.telemetry : nullptr; }
void* log_ring(Board& b) { return &b.log; }

const FirmwareCosts& firmware_costs(Board& b) { return b.costs; }
std::uint64_t host_monotonic_ns(Board& b) { return b.unix_ns; }
std::uint64_t host_unix_ns(Board& b) { return b.unix_ns++; }

std::int32_t memory_map(Board& b, const MapRequest& request, std::uint32_t* out_extent, FaultReport& fault) {
  const std::uint64_t bytes = request.bytes_per_slice * static_cast<std::uint64_t>(std::popcount(request.slice_mask));
  if (b.charged + bytes > b.budget) {
    std::snprintf(fault.text, sizeof fault.text, "budget");
    return JAL_ERROR_HOST_BUDGET;
  }
  b.charged += bytes;
  *out_extent = b.next_extent++;
  b.extents[*out_extent] = request;
  return JAL_OK;
}
void memory_unmap(Board& b, std::uint32_t extent) {
  const MapRequest& request = b.extents.at(extent);  // throws for one that is not live
  b.charged -= request.bytes_per_slice * static_cast<std::uint64_t>(std::popcount(request.slice_mask));
  b.extents.erase(extent);
}
void memory_budget(Board& b, std::uint64_t* out_limit, std::uint64_t* out_used) {
  *out_limit = b.budget;
  *out_used = b.charged;
}

std::int32_t dma_run(Board& b, const DmaRequest& request, DmaResult& out, FaultReport& fault) {
  if (b.copy_status != 0) {
    std::snprintf(fault.text, sizeof fault.text, "the board refuses");
    return b.copy_status;
  }
  b.copies.push_back(request);
  out.begin_ps = std::max(request.start_ps, b.copy_free_ps);
  out.end_ps = b.copy_free_ps = out.begin_ps + request.bytes;
  return JAL_OK;
}

std::int32_t code_load(Board& b, const void*, std::uint64_t, std::uint32_t* out_code, FaultReport& fault) {
  if (b.code_status != 0) {
    std::snprintf(fault.text, sizeof fault.text, "the board refuses");
    return b.code_status;
  }
  *out_code = 0;
  while (b.codes.count(*out_code) != 0) ++*out_code;
  b.codes.insert(*out_code);
  return JAL_OK;
}
void code_unload(Board& b, std::uint32_t code) { b.codes.erase(code); }

std::int32_t cores_start(Board& b, const CoreJob& job, CoreJobResult& out) {
  b.jobs.push_back(job);
  const auto* bytes = static_cast<const std::uint8_t*>(job.arguments);
  b.job_arguments.emplace_back(bytes, bytes + job.argument_bytes);
  if (b.polls_left > 0) return kPending;
  return cores_poll(b, out);
}
std::int32_t cores_poll(Board& b, CoreJobResult& out) {
  if (b.polls_left > 1) {
    --b.polls_left;
    return kPending;
  }
  b.polls_left = 0;
  out = b.job_result;
  out.end_ps += b.jobs.back().start_ps;
  return out.status;
}

std::uint64_t unit_static_microwatts(Board&, std::uint32_t unit) { return 1000 * (unit + 1); }
std::uint32_t unit_state(Board&, std::uint32_t) { return 0; }
void meter_add_fj(Board& b, std::uint32_t unit, std::uint64_t energy_fj) { b.energy_fj[unit] += energy_fj; }
// A test's own scale: a femtojoule a picosecond and unit.
void meter_advance_ps(Board& b, std::uint64_t dt_ps) {
  for (std::uint32_t unit = 0; unit < JAL_UNIT_COUNT; ++unit) b.energy_fj[unit] += dt_ps * (unit + 1);
}
std::uint64_t meter_read_nj(Board& b, std::uint32_t unit) { return b.energy_fj[unit] / 1'000'000; }

std::uint32_t fabric_ports(Board&) { return 0; }

}  // namespace jal::hal
