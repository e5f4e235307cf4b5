// Counting and time text of a sample. See sample.hpp.
#include "tools/jal-smi/sample.hpp"

#include <spdlog/fmt/fmt.h>

#include <ctime>

namespace jal::smi {

std::size_t Sample::device_count() const {
  std::size_t count = 0;
  for (const Instance& instance : instances) count += instance.devices.size();
  return count;
}

std::size_t Sample::unreadable_count() const {
  std::size_t count = 0;
  for (const Instance& instance : instances) {
    count += instance.error != JAL_OK ? 1u : 0u;
    for (const Device& device : instance.devices) count += device.readable() ? 0u : 1u;
  }
  return count;
}

std::string rfc3339(std::uint64_t unix_ns) {
  const std::time_t seconds = static_cast<std::time_t>(unix_ns / 1000000000u);
  std::tm parts{};
  gmtime_r(&seconds, &parts);
  return fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}.{:09}Z", parts.tm_year + 1900, parts.tm_mon + 1,
                     parts.tm_mday, parts.tm_hour, parts.tm_min, parts.tm_sec, unix_ns % 1000000000u);
}

}  // namespace jal::smi
