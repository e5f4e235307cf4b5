// Contract: device.hpp.
#include "emulator/device/device.hpp"

#include <algorithm>
#include <cstring>

namespace jal::emu {

Device::Device(const Model& model, HostBudget& budget, WorkerPool& workers, void* telemetry_page,
               const Options& options)
    : model_(model),
      budget_(budget),
      telemetry_page_(telemetry_page),
      hbm_(model.cores, model.slice_bytes, budget),
      meter_(model),
      trace_(options.index),
      copies_(model, hbm_, meter_, trace_) {
  cores_ = std::make_unique<CoreCluster>(model_, hbm_, workers, trace_, text_,
                                         CoreCluster::Options{options.sanitize, options.kernel_deadline_ns});
  std::memcpy(chip_info_.model, model.name.data(), std::min(model.name.size(), sizeof chip_info_.model - 1));
  chip_info_.uuid[0] = options.uuid[0];
  chip_info_.uuid[1] = options.uuid[1];
  chip_info_.cores = model.cores;
  chip_info_.slices = model.cores;
  chip_info_.grid_rows = model.grid_rows;
  chip_info_.grid_cols = model.grid_cols;
  chip_info_.slice_bytes = model.slice_bytes;
  chip_info_.reserved_bytes = model.reserved_bytes_per_slice * model.cores;
  chip_info_.chip_bytes = model.slice_bytes * model.cores + chip_info_.reserved_bytes;
  chip_info_.hbm_bytes_per_second = static_cast<std::uint64_t>(model.hbm_bytes_per_second_per_slice) * model.cores;
  chip_info_.l1_bytes = model.l1_bytes;
  chip_info_.clock_kind = JAL_CLOCK_VIRTUAL;
  chip_info_.rated_milliwatts = model.rated_mw;
  chip_info_.sustained_milliwatts = model.sustained_mw;
  chip_info_.clock_hz = model.clock_hz;
  chip_info_.device_index = options.index;
  costs_ = {model.packet_ps, model.dispatch_ps, model.completion_ps, model.host_latency_ps};
}

Device::~Device() = default;

void Device::set_client_region(std::uint32_t client, void* region, std::uint64_t bytes) {
  if (client >= hal::kMaxClients) return;
  regions_[client] = {region, bytes};
  text_.set(client, region == nullptr ? nullptr : &static_cast<jal_client_region*>(region)->text);
}

void* Device::client_region(std::uint32_t client, std::uint64_t* out_bytes) const {
  if (client >= hal::kMaxClients) return nullptr;
  if (out_bytes != nullptr) *out_bytes = regions_[client].bytes;
  return regions_[client].memory;
}

}  // namespace jal::emu
