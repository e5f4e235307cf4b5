// Fabric port: what of the scale-up network this board has. A chip without peers has no ports; collectives between
// chips need JAL_FEATURE_COLLECTIVE, which the firmware offers only when fabric_ports() > 0.
#pragma once
#include <jal/hal/board.hpp>

namespace jal::hal {
uint32_t fabric_ports(Board&);
}  // namespace jal::hal
