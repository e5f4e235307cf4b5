// Contract: fidelity.hpp. A row is changed with the code that it speaks of.
#include "emulator/instance/fidelity.hpp"

namespace jal::emu {

const char* const* fidelity_table() {
  static const char* const table[] = {
      "numerics",
      "exact",
      "engine results are the bits of docs/engine_numerics.md on every host; the silicon's own rounding is not public",
      "packets, events, statuses",
      "exact",
      "the contract of firmware/abi, executed by the firmware that the chip would run",
      "page ownership and address checks",
      "exact",
      "64 KiB pages, guards behind allocations, other clients' pages fault",
      "HBM time",
      "approximate",
      "latency plus bytes over each slice's published rate; banks and refresh are not modelled",
      "collective network and NoC time",
      "approximate",
      "latency plus bytes over bandwidth; contention is a correction at joins, not flit by flit",
      "latencies",
      "approximate",
      "one named constant each in the model file; calibrated to 18.5 us per GPT-OSS decoder layer",
      "scalar code of kernels",
      "not modelled",
      "free; every SDK verb charges a fixed issue time instead",
      "L1",
      "functional",
      "capacity is enforced; bank conflicts are not modelled",
      "engines",
      "approximate",
      "start-up plus operations over the published rate; utilisation loss of odd shapes is not modelled",
      "copies between host and chip",
      "approximate",
      "one at a time over the PCIe rate; host caches and paging are not modelled",
      "energy",
      "approximate",
      "static power by unit and energy per byte and operation, exact sums of assumed figures",
      "power states and wake-up times",
      "not modelled",
      "all units stay on; static power is that of the on state",
      "temperature and throttling",
      "not modelled",
      "no limit of power or temperature is enforced",
      "scale-up links and collectives between chips",
      "not modelled",
      "a chip of this emulator has no ports",
      "firmware execution",
      "functional",
      "runs natively on the host at a fixed modelled cost per packet",
      "kernels' scalar instruction set",
      "not modelled",
      "kernels run as host code; RV64 modules are refused",
      nullptr};
  return table;
}

}  // namespace jal::emu
