// Contract: settings.hpp.
#include "emulator/instance/settings.hpp"

#include <sched.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <iterator>

#include "driver/base/runtime_dir.hpp"
#include "emulator/hbm/host_budget.hpp"

namespace jal::emu {
namespace {

/// The variable's text, or empty if it is not set.
std::string text_of(const char* value) { return value == nullptr ? "" : value; }

jal_status_t refuse(std::string* error, const std::string& name, const std::string& value, const std::string& allowed) {
  *error = name + " is \"" + value + "\"; allowed: " + allowed;
  return JAL_ERROR_INVALID_ARGUMENT;
}

bool parse_count(const std::string& text, std::uint32_t limit, std::uint32_t* out) {
  std::uint32_t value = 0;
  const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (problem != std::errc() || end != text.data() + text.size() || value < 1 || value > limit) return false;
  *out = value;
  return true;
}

bool parse_seconds(const std::string& text, std::uint64_t* out_ns) {
  double value = 0;
  const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (problem != std::errc() || end != text.data() + text.size() || !(value >= 0.001 && value <= 1e6)) return false;
  *out_ns = static_cast<std::uint64_t>(std::llround(value * 1e9));
  return true;
}

bool parse_sanitize(const std::string& text, std::uint32_t* out) {
  static constexpr struct {
    const char* name;
    std::uint32_t bit;
  } kNames[] = {{"memory", JAL_SANITIZE_MEMORY},
                {"init", JAL_SANITIZE_INIT},
                {"race", JAL_SANITIZE_RACE},
                {"locality", JAL_SANITIZE_LOCALITY}};
  for (std::size_t start = 0; start <= text.size();) {
    const std::size_t end = std::min(text.find(',', start), text.size());
    const std::string word = text.substr(start, end - start);
    const auto* known =
        std::find_if(std::begin(kNames), std::end(kNames), [&](const auto& n) { return word == n.name; });
    if (known == std::end(kNames)) return false;
    *out |= known->bit;
    start = end + 1;
  }
  return true;
}

/// What libjal's log understands; libjal says what it does not.
std::uint32_t log_level(const std::string& text) {
  static constexpr const char* kLevels[] = {"off", "error", "warning", "info", "debug"};
  for (std::uint32_t level = 0; level < std::size(kLevels); ++level) {
    if (text == kLevels[level]) return level;
  }
  return 0;
}

std::uint32_t usable_cpus() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof set, &set) != 0) return 1;
  return std::clamp<std::uint32_t>(static_cast<std::uint32_t>(CPU_COUNT(&set)), 1, kMaxWorkers);
}

jal_status_t check_options(const jal_instance_options& options, std::string* error) {
  if (options.struct_size != sizeof options) {
    *error = "jal_instance_options.struct_size is " + std::to_string(options.struct_size) + ", this emulator knows " +
             std::to_string(sizeof options) + "; use a libjal and an emulator of one release";
    return JAL_ERROR_WRONG_STRUCT_SIZE;
  }
  for (const std::uint64_t word : options.reserved) {
    if (word != 0) {
      *error = "jal_instance_options.reserved is not zero; zero-initialise the struct";
      return JAL_ERROR_RESERVED_NOT_ZERO;
    }
  }
  if (options.device_count > kMaxDevices) {
    return refuse(error, "device_count", std::to_string(options.device_count), "1 to 8, or 0 for JAL_DEVICES");
  }
  if (options.worker_threads > kMaxWorkers) {
    return refuse(error, "worker_threads", std::to_string(options.worker_threads), "1 to 8, or 0 for JAL_WORKERS");
  }
  constexpr std::uint32_t kAllSanitizers =
      JAL_SANITIZE_MEMORY | JAL_SANITIZE_INIT | JAL_SANITIZE_RACE | JAL_SANITIZE_LOCALITY;
  if ((options.sanitize & ~kAllSanitizers) != 0) {
    return refuse(error, "sanitize", std::to_string(options.sanitize), "JAL_SANITIZE_* bits or-ed");
  }
  if (options.name != nullptr &&
      (!drv::is_instance_name(options.name) || std::string(options.name).rfind(drv::kPrivatePrefix, 0) == 0)) {
    return refuse(error, "name", options.name,
                  "1 to 48 letters, digits, _ - . not beginning with a dot or \"private-\"");
  }
  if (options.trace_path != nullptr) {
    *error = "trace_path is set; the emulator writes no trace files: libjal does, through set_trace_sink";
    return JAL_ERROR_UNIMPLEMENTED;
  }
  return JAL_OK;
}

}  // namespace

jal_status_t read_settings(const jal_instance_options* options, Settings* out, std::string* error) {
  const jal_instance_options none = {sizeof none, 0, nullptr, nullptr, 0, 0, 0, 0, nullptr, {}};
  const jal_instance_options& given = options != nullptr ? *options : none;
  if (const jal_status_t status = check_options(given, error); status != JAL_OK) return status;

  Settings settings;
  settings.worker_threads = usable_cpus();
  settings.host_budget_bytes = default_host_budget_bytes();
  const std::string devices = text_of(std::getenv("JAL_DEVICES")), model = text_of(std::getenv("JAL_MODEL")),
                    workers = text_of(std::getenv("JAL_WORKERS")), sanitize = text_of(std::getenv("JAL_SANITIZE")),
                    budget = text_of(std::getenv("JAL_HOST_BUDGET")),
                    deadline = text_of(std::getenv("JAL_KERNEL_DEADLINE"));
  if (!devices.empty() && !parse_count(devices, kMaxDevices, &settings.device_count)) {
    return refuse(error, "JAL_DEVICES", devices, "1 to 8");
  }
  if (!workers.empty() && !parse_count(workers, kMaxWorkers, &settings.worker_threads)) {
    return refuse(error, "JAL_WORKERS", workers, "1 to 8");
  }
  if (!sanitize.empty() && !parse_sanitize(sanitize, &settings.sanitize)) {
    return refuse(error, "JAL_SANITIZE", sanitize, "a list of memory, init, race, locality with commas");
  }
  if (!budget.empty() && !parse_bytes(budget, &settings.host_budget_bytes)) {
    return refuse(error, "JAL_HOST_BUDGET", budget, "a whole number of bytes, or with K, M, G or T behind it");
  }
  if (!deadline.empty() && !parse_seconds(deadline, &settings.kernel_deadline_ns)) {
    return refuse(error, "JAL_KERNEL_DEADLINE", deadline, "seconds, 0.001 to 1000000");
  }
  if (!model.empty()) settings.model = model;
  settings.log_level = log_level(text_of(std::getenv("JAL_LOG")));

  if (given.device_count != 0) settings.device_count = given.device_count;
  if (given.model != nullptr) settings.model = given.model;
  if (given.name != nullptr) settings.name = given.name;
  if (given.worker_threads != 0) settings.worker_threads = given.worker_threads;
  settings.sanitize |= given.sanitize;
  if (given.host_budget_bytes != 0) settings.host_budget_bytes = given.host_budget_bytes;
  if (given.kernel_deadline_ns != 0) settings.kernel_deadline_ns = given.kernel_deadline_ns;
  *out = settings;
  return JAL_OK;
}

}  // namespace jal::emu
