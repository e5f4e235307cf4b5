// What the kernel has been told about huge pages, read from /proc/self/smaps. For tests.
#pragma once
#include <unistd.h>

#include <cinttypes>
#include <cstdint>
#include <cstdio>
#include <fstream>
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
    if (std::sscanf(line.c_str(), "%" SCNxPTR "-%" SCNxPTR " ", &begin, &end) == 2) {
      inside = begin <= wanted && wanted < end;
    } else if (inside && line.rfind("VmFlags:", 0) == 0) {
      return (line + " ").find(" hg ") != std::string::npos;
    }
  }
  return false;
}

}  // namespace jal::emu::test
