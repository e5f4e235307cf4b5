// Kernels for AVX2 with FMA and F16C. Compiled with those flags; nothing of it may be inlined elsewhere.
#include "emulator/engines/simd/lanes_avx2.hpp"
// lanes first: the kernels below are written over its Arch
#include "emulator/engines/simd/table_simd.hpp"

namespace jal::emu {

const KernelTable kAvx2Kernels = make_table<avx2::Arch>(Isa::avx2);

}  // namespace jal::emu
