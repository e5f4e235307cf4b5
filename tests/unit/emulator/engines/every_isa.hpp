// Runs a body under every kernel table this machine can run, and says which were native.
//
// The AVX-512 files are also compiled on SIMDe (portable code), so that their logic is tested where the processor lacks
// AVX-512; those tables are named "avx512 (SIMDe)" and "avx512_bf16 (SIMDe)".
#pragma once
#include <string>
#include <vector>

#include "emulator/engines/kernels.hpp"

namespace jal::emu {

extern const KernelTable kSimdeAvx512Kernels;
extern const KernelTable kSimdeAvx512Bf16Kernels;

namespace test {

struct NamedTable {
  std::string name;
  const KernelTable* table;
};

/// The scalar table first: it is the reference.
inline std::vector<NamedTable> every_table() {
  std::vector<NamedTable> tables{{"scalar", &kScalarKernels}};
  if (isa_available(Isa::avx2)) {
    tables.push_back({"avx2", &kAvx2Kernels});
    tables.push_back({"avx512 (SIMDe)", &kSimdeAvx512Kernels});
    tables.push_back({"avx512_bf16 (SIMDe)", &kSimdeAvx512Bf16Kernels});
  }
  if (isa_available(Isa::avx512)) tables.push_back({"avx512", &kAvx512Kernels});
  if (isa_available(Isa::avx512_bf16)) tables.push_back({"avx512_bf16", &kAvx512Bf16Kernels});
  return tables;
}

/// Puts the table that was in use back at the end of a test.
class TableScope {
 public:
  TableScope() : saved_(&kernels()) {}
  ~TableScope() { select_table(*saved_); }
  TableScope(const TableScope&) = delete;
  TableScope& operator=(const TableScope&) = delete;

 private:
  const KernelTable* saved_;
};

}  // namespace test
}  // namespace jal::emu
