// Clocks: device time and host time. Device time is kept by firmware (it knows when packets end); the board only stores
// it.
#pragma once
#include <jal/hal/board.hpp>

namespace jal::hal {

/// Fixed device-time costs of the firmware and host link, from the model file, in picoseconds.
struct FirmwareCosts {
  uint64_t packet_ps;        ///< fetch, check and retire any packet
  uint64_t dispatch_ps;      ///< start a kernel on its cores (device dispatch)
  uint64_t completion_ps;    ///< from last core's end to the event's value
  uint64_t host_latency_ps;  ///< host submission to command processor
};
const FirmwareCosts& firmware_costs(Board&);

/// Host clocks, for deadlines and telemetry only; modelled time never depends on them.
uint64_t host_monotonic_ns(Board&);
uint64_t host_unix_ns(Board&);

}  // namespace jal::hal
