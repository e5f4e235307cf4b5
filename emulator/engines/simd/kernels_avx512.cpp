// Kernels for AVX-512 (F, BW, VL, DQ, VBMI) with FP32 lanes. Compiled with those flags.
#ifndef JAL_ENGINE_NAMESPACE
  #define JAL_ENGINE_NAMESPACE avx512
  #define JAL_ENGINE_TABLE kAvx512Kernels
#endif
#include "emulator/engines/simd/lanes_avx512.hpp"
// lanes first: the kernels below are written over its Arch
#include "emulator/engines/simd/table_simd.hpp"

namespace jal::emu {

extern const KernelTable JAL_ENGINE_TABLE;
const KernelTable JAL_ENGINE_TABLE = make_table<JAL_ENGINE_NAMESPACE::Arch>(Isa::avx512);

}  // namespace jal::emu
