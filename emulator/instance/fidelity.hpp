// What the emulator is faithful in, feature by feature: the table behind jal_instance_api.fidelity.
#pragma once

namespace jal::emu {

/// NULL-terminated triples {feature, level, text}; level is exact, functional, approximate or not modelled.
const char* const* fidelity_table();

}  // namespace jal::emu
