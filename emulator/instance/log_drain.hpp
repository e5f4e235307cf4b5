// Turns the firmware's log records into lines on standard error, for whoever set JAL_LOG.
//
// What it is not: a consumer the firmware waits for. A reader that fell behind says how many records it missed.
// Threads: externally synchronised with the device's stepping.
#pragma once
#include <jal/abi/log.h>

#include <cstdint>
#include <string>

namespace jal::emu {

/// The record's text by jal/abi/log.h; an unknown id is printed as numbers.
std::string log_text(const jal_log_entry& entry);

class LogDrain {
 public:
  /// level: 0 = off, else JAL_LOG_LEVEL_*: records of that level and more severe ones are printed.
  LogDrain(std::uint32_t device, std::uint32_t level) : device_(device), level_(level) {}
  void drain(const jal_log_ring& ring) {
    if (level_ != 0 && ring.written != seen_) print(ring);
  }

 private:
  void print(const jal_log_ring& ring);

  const std::uint32_t device_, level_;
  std::uint64_t seen_ = 0;
};

}  // namespace jal::emu
