// An instance: up to eight chips in this process, each with its firmware, behind the functions of jal/abi/instance.h.
//
// What it is not: a server. Whoever waits drives step(); an instance has no thread of its own except the cores'
// workers, which sleep while no kernel runs. Invariant: one thread at a time is inside a chip (its lock); everything a
// chip shares with others (host budget, worker pool) has its own rule. Threads: as instance.h says.
#pragma once
#include <jal/abi/instance.h>

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "emulator/cores/worker_pool.hpp"
#include "emulator/device/device.hpp"
#include "emulator/hbm/host_budget.hpp"
#include "emulator/instance/log_drain.hpp"
#include "emulator/instance/settings.hpp"
#include "emulator/instance/telemetry_file.hpp"
#include "emulator/model/model.hpp"
#include "firmware/boards/emu_native/board.hpp"
#include "firmware/control/control.hpp"

namespace jal::emu {

class Instance {
 public:
  ~Instance();
  Instance(const Instance&) = delete;
  Instance& operator=(const Instance&) = delete;

  /// Makes and boots the chips. On failure nullptr, *status and *error.
  static std::unique_ptr<Instance> open(const Settings& settings, jal_status_t* status, std::string* error);

  std::uint32_t device_count() const { return static_cast<std::uint32_t>(chips_.size()); }
  /// Runs the handshake in the region. OK with the client's slot on the device, or why not.
  jal_status_t attach(std::uint32_t device, void* region, std::uint64_t region_bytes, std::uint32_t* out_client,
                      std::string* error);
  void detach(std::uint32_t device, std::uint32_t client);
  std::uint32_t step(std::uint32_t device);
  const std::string& telemetry_path() const { return telemetry_.path(); }
  void set_trace_sink(jal_trace_sink sink, void* user);
  const Model& model() const { return model_; }
  /// In the child of a fork: lets go of the lock and never works again. An abandoned instance is not destroyed: its
  /// workers and its memory are the parent's.
  void abandon();
  bool is_abandoned() const { return is_abandoned_; }

 private:
  struct ControlDeleter {
    void operator()(fw::Control* control) const;
  };
  struct Chip {
    Chip(std::uint32_t index, std::uint32_t log_level) : log(index, log_level) {}
    std::unique_ptr<Device> device;
    std::unique_ptr<hal::Board> board;
    std::unique_ptr<fw::Control, ControlDeleter> control;
    LogDrain log;
    std::mutex lock;
    std::uint32_t clients = 0;  // bit per slot in use
  };

  explicit Instance(const Settings& settings)
      : budget_(settings.host_budget_bytes), workers_(settings.worker_threads) {}
  jal_status_t start(const Settings& settings, std::string* error);

  Model model_;
  HostBudget budget_;
  WorkerPool workers_;
  TelemetryFile telemetry_;
  std::vector<std::unique_ptr<Chip>> chips_;
  bool is_abandoned_ = false;
};

}  // namespace jal::emu
