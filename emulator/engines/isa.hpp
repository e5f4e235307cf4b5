// Which instruction set the engines' kernels run on: found once by cpuid, or chosen by a test or by JAL_ISA.
//
// What it is not: a way to change results. Every instruction set gives the same bits (docs/engine_numerics.md).
// Invariant: a choice that the processor cannot run is refused; operands prepared under one choice are used under it.
#pragma once
#include <cstdint>

namespace jal::emu {

/// Instruction sets in order of preference within a vendor; avx512_bf16 adds vdpbf16ps to avx512.
enum class Isa : std::uint8_t { scalar, avx2, avx512, avx512_bf16 };

inline constexpr int kIsaCount = 4;

/// Name as JAL_ISA spells it: "scalar", "avx2", "avx512", "avx512_bf16".
const char* isa_name(Isa isa);

/// True when this processor and operating system can run it (and the build holds it).
bool isa_available(Isa isa);

/// The instruction set in use. The first call reads JAL_ISA; an unknown or unavailable name there is reported on
/// stderr and ignored. Any thread.
Isa current_isa();

/// Selects `isa` for all later calls of the process; false and no change when unavailable. For tests: no engine
/// function may run meanwhile, and an operand prepared before must be prepared again.
bool select_isa(Isa isa);

}  // namespace jal::emu
