// Finds the instruction set and holds the table in use.
#include "emulator/engines/isa.hpp"

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "emulator/engines/kernels.hpp"

namespace jal::emu {
namespace {

const KernelTable* table_of(Isa isa) {
  switch (isa) {
#if defined(__x86_64__)
    case Isa::avx2:
      return &kAvx2Kernels;
    case Isa::avx512:
      return &kAvx512Kernels;
    case Isa::avx512_bf16:
      return &kAvx512Bf16Kernels;
#endif
    default:
      return &kScalarKernels;
  }
}

/// The fastest of those available. On Intel vdpbf16ps has a quarter of the FMA units' rate (measured on Sapphire
/// Rapids: one in two to three cycles against two FMAs a cycle), so FP32 lanes win there; on AMD (Zen 4) it doubles the
/// rate.
Isa preferred_isa() {
#if defined(__x86_64__)
  const bool intel = __builtin_cpu_is("intel");
  if (isa_available(Isa::avx512_bf16) && !intel) return Isa::avx512_bf16;
  if (isa_available(Isa::avx512)) return Isa::avx512;
  if (isa_available(Isa::avx2)) return Isa::avx2;
#endif
  return Isa::scalar;
}

const KernelTable* first_choice() {
  const char* wanted = std::getenv("JAL_ISA");
  if (wanted != nullptr && *wanted != '\0') {
    for (int i = 0; i < kIsaCount; ++i) {
      const Isa isa = static_cast<Isa>(i);
      if (std::strcmp(wanted, isa_name(isa)) == 0 && isa_available(isa)) return table_of(isa);
    }
    std::fprintf(stderr, "jal: JAL_ISA=%s is unknown or not available on this processor; using %s\n", wanted,
                 isa_name(preferred_isa()));
  }
  return table_of(preferred_isa());
}

std::atomic<const KernelTable*>& current() {
  static std::atomic<const KernelTable*> table{first_choice()};
  return table;
}

}  // namespace

const char* isa_name(Isa isa) {
  switch (isa) {
    case Isa::scalar:
      return "scalar";
    case Isa::avx2:
      return "avx2";
    case Isa::avx512:
      return "avx512";
    case Isa::avx512_bf16:
      return "avx512_bf16";
  }
  return "unknown";
}

bool isa_available(Isa isa) {
  switch (isa) {
    case Isa::scalar:
      return true;
#if defined(__x86_64__)
    case Isa::avx2:
      return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("f16c");
    case Isa::avx512:
      return isa_available(Isa::avx2) && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
             __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq") &&
             __builtin_cpu_supports("avx512vbmi");
    case Isa::avx512_bf16:
      return isa_available(Isa::avx512) && __builtin_cpu_supports("avx512bf16");
#endif
    default:
      return false;
  }
}

Isa current_isa() { return kernels().isa; }

bool select_isa(Isa isa) {
  if (!isa_available(isa)) return false;
  select_table(*table_of(isa));
  return true;
}

void select_table(const KernelTable& table) { current().store(&table, std::memory_order_release); }

const KernelTable& kernels() { return *current().load(std::memory_order_acquire); }

}  // namespace jal::emu
