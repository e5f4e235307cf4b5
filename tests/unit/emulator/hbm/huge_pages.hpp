// What the kernel has been told about huge pages, read from /proc/self/smaps. For tests.
#pragma once
#include <unistd.h>

#include <cstdint>
#include <fstream>
#include <sstream>
#include <string>

namespace jal::emu::test {

inline bool system_has_huge_pages() { return access("/sys/kernel/mm/transparent_hugepage/enabled", R_OK) == 0; }

/// Whether the mapping around an address was given MADV_HUGEPAGE ("hg" of its VmFlags).
inline bool asks_for_huge_pages(const void* address) {
  const auto wanted = reinterpret_cast<std::uintptr_t>(address);
  std::ifstream smaps("/proc/self/smaps");
  std::string line;
  bool inside = false;
  while (std::getline(smaps, line)) {
    std::uintptr_t begin = 0, end = 0;
    char dash = 0;
    std::istringstream in(line);
    if (in >> std::hex >> begin >> dash >> end && dash == '-') {
      inside = begin <= wanted && wanted < end;
    } else if (inside && line.rfind("VmFlags:", 0) == 0) {
      return (line + " ").find(" hg ") != std::string::npos;
    }
  }
  return false;
}

}  // namespace jal::emu::test
