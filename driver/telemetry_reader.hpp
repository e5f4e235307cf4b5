// Reads telemetry files of instances: no lease, no lock, also while firmware hangs. Contract: jal/abi/telemetry.h.
//
// What it is not: a mapping. It reads with pread, so that a file cut short by its owner gives a status and never a
// signal. Invariant: what the file says is copied, checked, then used; a page is handed out only if it is whole.
// Threads: any; a TelemetryFile may be read from several.
#pragma once
#include <jal/abi/telemetry.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "driver/base/status.hpp"

namespace jal::drv {

/// An instance that has a telemetry file in the rendezvous directory.
struct InstanceFile {
  std::string name;
  std::string path;
  bool is_alive = false;  ///< its lock is held
};

/// All of them, sorted by name; empty when there is none, also when the directory does not exist yet. BAD_RUNTIME_DIR.
Result<std::vector<InstanceFile>> list_instances();

class TelemetryFile {
 public:
  TelemetryFile() = default;
  ~TelemetryFile();
  TelemetryFile(TelemetryFile&& other) noexcept;
  TelemetryFile& operator=(TelemetryFile&& other) noexcept;

  /// NO_TELEMETRY (no such file), NO_PERMISSION, BAD_TELEMETRY (not of this contract, or not yet valid).
  static Result<TelemetryFile> open(const std::string& path);

  /// Texts are NUL-terminated, device_count is at most kDevicesMax and fits the file.
  const jal_telemetry_head& head() const { return head_; }
  const std::string& path() const { return path_; }

  /// A whole page: count is at most JAL_TELEMETRY_ENTRIES, model NUL-terminated. NO_DEVICE, BAD_TELEMETRY when it
  /// stayed torn for about 20 ms or was cut off.
  Status read(std::uint32_t device, jal_telemetry_page* out) const;

  static constexpr std::uint32_t kDevicesMax = 1024;

 private:
  int fd_ = -1;
  std::string path_;
  jal_telemetry_head head_{};
};

/// The value of a tag in a page; empty if the page does not have it.
std::optional<std::uint64_t> find_value(const jal_telemetry_page& page, std::uint32_t tag, std::uint32_t index = 0);

}  // namespace jal::drv
