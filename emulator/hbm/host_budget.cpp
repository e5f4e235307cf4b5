// Contract: host_budget.hpp. Where control groups say their limits: cgroups(7), memory.max and memory.limit_in_bytes.
#include "emulator/hbm/host_budget.hpp"

#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <fstream>

namespace jal::emu {
namespace {

std::uint64_t read_limit(const std::string& path) {
  std::ifstream file(path);
  std::uint64_t value = 0;
  // "max" (version 2: no limit) is no number; version 1 writes a huge one instead.
  return file >> value ? value : UINT64_MAX;
}

/// The lowest limit from a group up to the root: a parent binds its children.
std::uint64_t lowest_limit(const std::string& mount, std::string group, const char* file) {
  std::uint64_t lowest = UINT64_MAX;
  for (;;) {
    lowest = std::min(lowest, read_limit(mount + group + "/" + file));
    const auto slash = group.rfind('/');
    if (group.empty() || slash == std::string::npos) return lowest;
    group.resize(slash);
  }
}

std::uint64_t group_limit() {
  std::uint64_t lowest = UINT64_MAX;
  std::ifstream groups("/proc/self/cgroup");
  for (std::string line; std::getline(groups, line);) {  // id:controllers:path
    const auto first = line.find(':'), second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string controllers = "," + line.substr(first + 1, second - first - 1) + ",";
    std::string path = line.substr(second + 1);
    if (path == "/") path.clear();
    if (controllers == ",,") {
      lowest = std::min(lowest, lowest_limit("/sys/fs/cgroup", path, "memory.max"));
    } else if (controllers.find(",memory,") != std::string::npos) {
      lowest = std::min(lowest, lowest_limit("/sys/fs/cgroup/memory", path, "memory.limit_in_bytes"));
    }
  }
  return lowest;
}

}  // namespace

bool HostBudget::charge(std::uint64_t bytes) noexcept {
  std::uint64_t used = used_.load(std::memory_order_relaxed);
  do {
    if (bytes > limit_ - std::min(used, limit_)) return false;
  } while (!used_.compare_exchange_weak(used, used + bytes, std::memory_order_relaxed));
  return true;
}

std::uint64_t default_host_budget_bytes() {
  const auto pages = static_cast<std::uint64_t>(std::max(0L, sysconf(_SC_PHYS_PAGES)));
  const std::uint64_t physical = pages * static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
  return std::min(physical, group_limit()) / 5 * 4;
}

bool parse_bytes(const std::string& text, std::uint64_t* out) {
  std::uint64_t value = 0;
  const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (problem != std::errc() || value == 0) return false;
  const std::string suffix(end, text.data() + text.size());
  int shift = 0;
  if (!suffix.empty()) {
    const auto at = std::string("KMGT").find(suffix);
    if (suffix.size() != 1 || at == std::string::npos) return false;
    shift = 10 * (static_cast<int>(at) + 1);
  }
  if (value > (UINT64_MAX >> shift)) return false;
  *out = value << shift;
  return true;
}

std::string bytes_text(std::uint64_t bytes) {
  static constexpr const char* kUnits[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  double value = static_cast<double>(bytes);
  int unit = 0;
  for (; value >= 1024 && unit < 4; ++unit) value /= 1024;
  char text[32];
  std::snprintf(text, sizeof text, unit == 0 ? "%.0f %s" : "%.2f %s", value, kUnits[unit]);
  return text;
}

}  // namespace jal::emu
