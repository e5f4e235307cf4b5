// One emulated chip: HBM, cores, copy engine, energy meter, clients' regions, telemetry page and log ring.
//
// What it is not: firmware. It decides nothing; firmware/control does, through the HAL that firmware/boards/emu_native
// binds to this class. Invariant: parts live as long as the device; addresses handed out stay valid. Threads: the
// stepping thread, one at a time (Instance holds the lock).
#pragma once
#include <jal/abi/log.h>
#include <jal/abi/session.h>

#include <cstdint>
#include <jal/hal/board.hpp>
#include <jal/hal/clock.hpp>
#include <memory>

#include "emulator/cores/cluster.hpp"
#include "emulator/device/copy_engine.hpp"
#include "emulator/device/energy_meter.hpp"
#include "emulator/device/text_port.hpp"
#include "emulator/device/trace_tap.hpp"
#include "emulator/hbm/hbm.hpp"
#include "emulator/hbm/host_budget.hpp"
#include "emulator/model/model.hpp"

namespace jal::emu {

class Device {
 public:
  struct Options {
    std::uint32_t index = 0;
    std::uint64_t uuid[2] = {};
    std::uint32_t sanitize = 0;  // JAL_SANITIZE_*
    std::uint64_t kernel_deadline_ns = 0;
  };

  /// telemetry_page: JAL_TELEMETRY_PAGE_BYTES of the instance's file.
  Device(const Model& model, HostBudget& budget, WorkerPool& workers, void* telemetry_page, const Options& options);
  ~Device();
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  const Model& model() const { return model_; }
  const jal_chip_info& chip_info() const { return chip_info_; }
  const hal::FirmwareCosts& firmware_costs() const { return costs_; }
  HostBudget& budget() { return budget_; }
  Hbm& hbm() { return hbm_; }
  EnergyMeter& meter() { return meter_; }
  CopyEngine& copies() { return copies_; }
  CoreCluster& cores() { return *cores_; }
  TraceTap& trace() { return trace_; }
  void* telemetry_page() const { return telemetry_page_; }
  jal_log_ring* log_ring() { return &log_ring_; }

  /// The client's region while it is attached; nullptr ends that. Also where its kernels' text goes.
  void set_client_region(std::uint32_t client, void* region, std::uint64_t bytes);
  void* client_region(std::uint32_t client, std::uint64_t* out_bytes) const;

 private:
  const Model& model_;
  HostBudget& budget_;
  jal_chip_info chip_info_ = {};
  hal::FirmwareCosts costs_ = {};
  void* const telemetry_page_;
  struct Region {
    void* memory = nullptr;
    std::uint64_t bytes = 0;
  } regions_[hal::kMaxClients];
  Hbm hbm_;
  EnergyMeter meter_;
  TraceTap trace_;
  TextPort text_;
  CopyEngine copies_;
  std::unique_ptr<CoreCluster> cores_;
  jal_log_ring log_ring_ = {};
};

}  // namespace jal::emu
