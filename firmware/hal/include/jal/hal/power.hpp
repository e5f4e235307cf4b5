// Power units: states, static power and the energy meter.
#pragma once
#include <jal/abi/power.h>

#include <jal/hal/board.hpp>

namespace jal::hal {

/// Static (leakage and clock) power of a unit in its present state, microwatts, whole package.
uint64_t unit_static_microwatts(Board&, uint32_t unit);
uint32_t unit_state(Board&, uint32_t unit);

/// Adds dynamic energy in femtojoules to the unit's meter. Exact: kept in 128 bits.
void meter_add_fj(Board&, uint32_t unit, uint64_t energy_fj);
/// Lets `dt_ps` of device time pass at the units' static power.
void meter_advance_ps(Board&, uint64_t dt_ps);
/// Energy of a unit since its epoch, nanojoules, rounded down.
uint64_t meter_read_nj(Board&, uint32_t unit);

}  // namespace jal::hal
