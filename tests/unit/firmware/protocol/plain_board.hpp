// A board in plain memory for tests of the management firmware: it does what it is asked and writes down what it was
// asked.
//
// What it is not: the emulator. Copies move no bytes, kernels do not run; their results are what the test says.
#pragma once
#include <jal/abi/log.h>
#include <jal/abi/module.h>
#include <jal/abi/session.h>
#include <jal/abi/telemetry.h>

#include <cstdint>
#include <jal/hal/board.hpp>
#include <jal/hal/clock.hpp>
#include <jal/hal/cores.hpp>
#include <jal/hal/dma.hpp>
#include <jal/hal/memory.hpp>
#include <map>
#include <set>
#include <vector>

namespace jal::hal {

struct Board {
  jal_chip_info chip{};
  FirmwareCosts costs{100, 1000, 10, 5000};
  std::uint64_t offered = JAL_FEATURE_HOST_VA | JAL_FEATURE_EMULATED | JAL_FEATURE_NATIVE;
  jal_telemetry_page telemetry{};
  bool has_telemetry = true;
  jal_log_ring log{};
  std::map<std::uint32_t, std::vector<std::uint64_t>> regions;  // by client; 64-bit words for alignment

  std::uint32_t next_extent = 1;
  std::map<std::uint32_t, MapRequest> extents;
  std::uint64_t budget = 1ull << 30;
  std::uint64_t charged = 0;

  std::vector<DmaRequest> copies;
  std::int32_t copy_status = 0;
  std::uint64_t copy_free_ps = 0;

  std::set<std::uint32_t> codes;
  std::int32_t code_status = 0;
  std::vector<CoreJob> jobs;
  std::vector<std::vector<std::uint8_t>> job_arguments;
  CoreJobResult job_result;  ///< end_ps counts from the job's start
  std::uint32_t polls_left = 0;

  std::uint64_t energy_fj[JAL_UNIT_COUNT] = {};
  std::uint64_t unix_ns = 1;
};

}  // namespace jal::hal
