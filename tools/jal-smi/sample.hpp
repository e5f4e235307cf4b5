// What jal-smi knows of the instances on this host at one moment.
//
// What it is not: a reader. collect() fills it from telemetry files through the driver; the printers only read it.
// Invariant: unknown is empty with a reason, never 0 and never a sentinel; a dead chip is a row, never a hang.
#pragma once
#include <jal/abi/power.h>
#include <jal/abi/status.h>

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace jal::smi {

/// One chip. Counters are since the energy epoch began; times named device time are modelled.
struct Device {
  std::uint32_t id = 0;     ///< number over all instances, in the order shown; an index, never an identity
  std::uint32_t index = 0;  ///< number within its instance
  std::string instance;
  std::string uuid;  ///< 8-4-4-4-12 hexadecimal: the identity
  std::string model;
  std::string state;  ///< booting, ok, failed, lost, hung, dead
  std::string clock;  ///< virtual, live
  bool emulated = true;
  jal_status_t error = JAL_OK;  ///< why the row is not readable, else JAL_OK
  std::string error_text;
  std::optional<std::uint64_t> age_ns;  ///< host time since the page was last written
  std::uint64_t heartbeat = 0;
  std::uint64_t clock_ps = 0;
  std::uint64_t energy_nj = 0, energy_epoch = 0;
  std::uint64_t static_mw = 0, rated_mw = 0, sustained_mw = 0;
  std::array<std::uint64_t, JAL_UNIT_COUNT> unit_energy_nj{}, unit_busy_ps{};
  std::array<std::uint32_t, JAL_UNIT_COUNT> unit_state{};
  std::uint32_t phase = 0;
  std::array<std::uint64_t, JAL_PHASE_COUNT> phase_energy_nj{}, phase_time_ps{}, phase_tokens{};
  std::uint64_t hbm_total = 0, hbm_usable = 0, hbm_reserved = 0, hbm_used = 0;
  std::uint64_t bytes_local = 0, bytes_remote = 0, bytes_collective = 0, bytes_noc = 0, bytes_host = 0;
  std::uint64_t packets = 0, dispatches = 0, errors = 0, clients = 0, queues = 0, pending = 0, cores = 0;
  std::uint64_t dispatch_time_ps = 0;

  bool readable() const { return error == JAL_OK; }
  /// Mean package power over device time, watts; empty before any device time has passed.
  std::optional<double> average_watts() const {
    if (clock_ps == 0) return std::nullopt;
    return static_cast<double>(energy_nj) * 1e3 / static_cast<double>(clock_ps);
  }
  /// Share of device time in which at least one kernel ran, 0..1.
  std::optional<double> busy_share() const {
    if (clock_ps == 0) return std::nullopt;
    return static_cast<double>(dispatch_time_ps) / static_cast<double>(clock_ps);
  }
};

struct Instance {
  std::string name;
  std::string path;
  bool alive = true;
  bool is_private = false;
  std::uint32_t owner_pid = 0;
  std::string program;
  std::string version;
  std::uint64_t start_unix_ns = 0;
  std::string clock;
  jal_status_t error = JAL_OK;  ///< the file as a whole could not be read
  std::string error_text;
  std::vector<Device> devices;
};

struct Sample {
  std::string host;
  std::uint64_t unix_ns = 0;
  std::string nothing_found;    ///< what to say when there is no instance: where it looked, what to do
  jal_status_t error = JAL_OK;  ///< the directory could not be read at all
  std::string error_text;
  std::vector<Instance> instances;

  std::size_t device_count() const;
  std::size_t unreadable_count() const;
};

/// Reads every instance of the rendezvous directories. Never blocks on a chip. Throws nothing.
Sample collect();

/// "2026-12-01T10:11:12.123456789Z".
std::string rfc3339(std::uint64_t unix_ns);

}  // namespace jal::smi
