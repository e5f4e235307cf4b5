// What an instance is to be: its options, where they leave something open the environment, else the default.
//
// What it is not: validation of the chip's model (emulator/model). Invariant: a value that cannot be understood is
// refused with its name, the value and what is allowed. Settings: docs/settings.md.
#pragma once
#include <jal/abi/instance.h>

#include <cstdint>
#include <string>

namespace jal::emu {

inline constexpr std::uint32_t kMaxDevices = 8;
inline constexpr std::uint32_t kMaxWorkers = 8;

struct Settings {
  std::uint32_t device_count = 1;
  std::string model = "jal1-a0";
  std::string name;  // empty: private
  std::uint32_t worker_threads = 1;
  std::uint32_t sanitize = 0;
  std::uint64_t host_budget_bytes = 0;
  std::uint64_t kernel_deadline_ns = 30'000'000'000;
  std::uint32_t log_level = 0;  // JAL_LOG_LEVEL_* of firmware records to print; 0 = none
};

/// Fills *out from the options (nullptr: none) and the environment. OK, WRONG_STRUCT_SIZE, RESERVED_NOT_ZERO,
/// INVALID_ARGUMENT or UNIMPLEMENTED with *error.
jal_status_t read_settings(const jal_instance_options* options, Settings* out, std::string* error);

}  // namespace jal::emu
