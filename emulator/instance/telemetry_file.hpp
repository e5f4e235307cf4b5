// The telemetry file of a running instance: made, mapped and removed. Contract: jal/abi/telemetry.h and
// driver/base/runtime_dir.hpp.
//
// What it is not: the writer of figures; firmware writes the device pages. Invariant: while this exists the instance's
// lock is held; publish() makes the file valid, and nothing reads it as valid before. Threads: externally synchronised.
#pragma once
#include <jal/abi/telemetry.h>

#include <cstdint>
#include <string>

#include "driver/base/runtime_dir.hpp"

namespace jal::emu {

class TelemetryFile {
 public:
  TelemetryFile() = default;
  ~TelemetryFile() { close(); }
  TelemetryFile(const TelemetryFile&) = delete;
  TelemetryFile& operator=(const TelemetryFile&) = delete;

  /// Takes the lock of `name` (empty: a private, random one), makes the file for that many devices and maps it. Removes
  /// files of dead private instances on the way. OK, BUSY, BAD_RUNTIME_DIR or FILE_IO with *error.
  jal_status_t open(const std::string& name, std::uint32_t devices, std::string* error);
  /// Writes the head, its magic last.
  void publish();
  /// Unmaps and removes file and lock.
  void close();

  /// In the child of a fork: closes the lock's descriptor, touches no file.
  void abandon() { lock_.abandon(); }

  void* page(std::uint32_t device) const;
  const std::string& path() const { return path_; }

 private:
  drv::InstanceLock lock_;
  std::string name_, path_;
  bool is_private_ = false;
  std::uint32_t devices_ = 0;
  std::uint8_t* memory_ = nullptr;
  std::uint64_t bytes_ = 0;
};

}  // namespace jal::emu
