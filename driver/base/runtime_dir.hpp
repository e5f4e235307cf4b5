// The rendezvous directory: where an instance of chips is found by name.
//
// Per instance NAME: NAME.lock, held by flock for the instance's life (alive = the lock cannot be had), and NAME.tel,
// its telemetry file (jal/abi/telemetry.h). What it is not: a registry; nothing here outlives its instance for long,
// and a file without a held lock means nothing. Shared by emulator and driver, so both look in the same place. Threads:
// any. Statuses are those of jal/abi/status.h; on failure *error has the path, what is wrong, and the fix.
#pragma once
#include <jal/abi/status.h>

#include <cstdint>
#include <string>
#include <vector>

namespace jal::drv {

/// Names of private instances begin so; the rest is random.
inline constexpr char kPrivatePrefix[] = "private-";
/// Longest name of an instance, so that it fits jal_telemetry_head::instance.
inline constexpr std::size_t kInstanceNameBytesMax = 48;

/// $JAL_RUNTIME_DIR, else $XDG_RUNTIME_DIR/jal where that is usable, else /tmp/jal-<uid>. With `create` it is made
/// (mode 0700) if missing. OK, or BAD_RUNTIME_DIR when it is no directory, another user's, a symbolic link, or writable
/// by others; without `create`, FILE_NOT_FOUND when it does not exist.
jal_status_t runtime_dir(bool create, std::string* out_path, std::string* error);

/// 1 to 48 of a-z A-Z 0-9 _ - .; not beginning with a dot.
bool is_instance_name(const std::string& name);

std::string lock_path(const std::string& dir, const std::string& name);
std::string telemetry_path(const std::string& dir, const std::string& name);

/// Whether somebody holds the instance's lock. Takes it for a moment, shared, if nobody does.
bool instance_is_alive(const std::string& dir, const std::string& name);

/// Names that have a telemetry file there, alive or not, sorted.
std::vector<std::string> instance_names(const std::string& dir);

/// An instance's lock, held until destroyed; then its files are removed.
class InstanceLock {
 public:
  InstanceLock() = default;
  ~InstanceLock() { release(); }
  InstanceLock(const InstanceLock&) = delete;
  InstanceLock& operator=(const InstanceLock&) = delete;

  /// OK, BUSY if somebody holds it, BAD_RUNTIME_DIR or FILE_IO.
  jal_status_t acquire(const std::string& dir, const std::string& name, std::string* error);
  /// Removes NAME.tel and NAME.lock and lets go. In a forked child: abandon().
  void release();
  bool is_held() const { return fd_ >= 0; }
  /// Closes without touching files: for the child of a fork, which must not keep its parent's instance alive.
  void abandon();

 private:
  int fd_ = -1;
  int owner_ = 0;  // process that acquired it
  std::string dir_, name_;
};

/// Removes the files of private instances whose owner died. Returns how many.
int remove_stale_private_instances(const std::string& dir);

}  // namespace jal::drv
