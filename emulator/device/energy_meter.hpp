// The package's energy, by power unit: static power over device time and dynamic energy per operation, exactly.
//
// What it is not: a governor; states are set from outside. Invariant: integers only. Counts are attojoules in 128 bits:
// one microwatt over one picosecond is one attojoule, so no sum is ever rounded, in whatever order it is made. Threads:
// externally synchronised (the stepping thread).
#pragma once
#include <cstdint>

#include "emulator/model/model.hpp"

namespace jal::emu {

class EnergyMeter {
 public:
  explicit EnergyMeter(const Model& model) : model_(model) {}

  std::uint64_t static_uw(std::uint32_t unit) const { return model_.static_uw[unit][state_[unit]]; }
  std::uint32_t state(std::uint32_t unit) const { return state_[unit]; }
  void set_state(std::uint32_t unit, std::uint32_t state) { state_[unit] = state; }

  /// Dynamic energy.
  void add_fj(std::uint32_t unit, std::uint64_t energy_fj) { rest_[unit] += Wide{energy_fj} * 1000; }
  /// Device time passes at the units' static power.
  void advance_ps(std::uint64_t dt_ps) {
    for (std::uint32_t unit = 0; unit < JAL_UNIT_COUNT; ++unit) rest_[unit] += Wide{static_uw(unit)} * dt_ps;
  }
  /// Nanojoules since the meter was made, rounded down.
  std::uint64_t read_nj(std::uint32_t unit) {
    Wide& rest = rest_[unit];
    // Telemetry reads after every unit of work, so the rest nearly always fits 64 bits, whose division is ten times
    // faster.
    if (rest <= UINT64_MAX) {
      const auto low = static_cast<std::uint64_t>(rest);
      nj_[unit] += low / kAttojoulesPerNanojoule;
      rest = low % kAttojoulesPerNanojoule;
    } else {
      nj_[unit] += static_cast<std::uint64_t>(rest / kAttojoulesPerNanojoule);
      rest %= kAttojoulesPerNanojoule;
    }
    return nj_[unit];
  }

 private:
  __extension__ using Wide = unsigned __int128;
  static constexpr std::uint64_t kAttojoulesPerNanojoule = 1'000'000'000;

  const Model& model_;
  std::uint32_t state_[JAL_UNIT_COUNT] = {};  // JAL_UNIT_STATE_ON
  std::uint64_t nj_[JAL_UNIT_COUNT] = {};
  Wide rest_[JAL_UNIT_COUNT] = {};  // attojoules beyond nj_
};

}  // namespace jal::emu
