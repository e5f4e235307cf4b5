// Contract: cluster.hpp. Modules are refused: this build has no cores yet.
#include "emulator/cores/cluster.hpp"

#include <jal/abi/status.h>

#include <cstdio>

namespace jal::emu {

CoreCluster::CoreCluster(const Model&, Hbm&, WorkerPool&, TraceTap&, TextPort&, const Options&) {}
CoreCluster::~CoreCluster() = default;

std::int32_t CoreCluster::load_code(const void*, std::uint64_t, std::uint32_t*, hal::FaultReport& fault) {
  fault.status = JAL_ERROR_MODULE_ARCH;
  std::snprintf(fault.text, sizeof fault.text, "this build of the emulator has no cores that run code");
  return fault.status;
}

void CoreCluster::unload_code(std::uint32_t) {}

std::int32_t CoreCluster::run(const hal::CoreJob&, hal::CoreJobResult& out) {
  out.status = JAL_ERROR_UNIMPLEMENTED;
  return out.status;
}

}  // namespace jal::emu
