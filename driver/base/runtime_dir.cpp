// Contract: runtime_dir.hpp.
#include "driver/base/runtime_dir.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace jal::drv {
namespace {

constexpr char kLockSuffix[] = ".lock", kTelemetrySuffix[] = ".tel";

std::string octal(unsigned mode) {
  char text[8];
  std::snprintf(text, sizeof text, "%04o", mode & 07777u);
  return text;
}

/// OK, FILE_NOT_FOUND or BAD_RUNTIME_DIR.
jal_status_t check_directory(const std::string& path, std::string* error) {
  struct stat info {};
  if (lstat(path.c_str(), &info) != 0) {
    if (errno == ENOENT) {
      *error = "runtime directory " + path + " does not exist; start an instance, or set JAL_RUNTIME_DIR";
      return JAL_ERROR_FILE_NOT_FOUND;
    }
    *error =
        "runtime directory " + path + ": " + std::strerror(errno) + "; set JAL_RUNTIME_DIR to a directory of yours";
    return JAL_ERROR_BAD_RUNTIME_DIR;
  }
  const std::string fix = "; remove it or set JAL_RUNTIME_DIR to a directory of yours";
  if (!S_ISDIR(info.st_mode)) {
    *error = "runtime directory " + path + " is " + (S_ISLNK(info.st_mode) ? "a symbolic link" : "no directory") + fix;
    return JAL_ERROR_BAD_RUNTIME_DIR;
  }
  if (info.st_uid != geteuid()) {
    *error = "runtime directory " + path + " belongs to user " + std::to_string(info.st_uid) + ", not to " +
             std::to_string(geteuid()) + fix;
    return JAL_ERROR_BAD_RUNTIME_DIR;
  }
  if ((info.st_mode & 022) != 0) {
    *error = "runtime directory " + path + " has mode " + octal(info.st_mode) +
             ", so others may replace its files; run: chmod 700 " + path;
    return JAL_ERROR_BAD_RUNTIME_DIR;
  }
  return JAL_OK;
}

std::string choose() {
  if (const char* set = std::getenv("JAL_RUNTIME_DIR"); set != nullptr && *set != '\0') return set;
  if (const char* xdg = std::getenv("XDG_RUNTIME_DIR"); xdg != nullptr && *xdg == '/') {
    // Left over from another user's login (su, cron) it cannot be used; then it does not count as set.
    struct stat info {};
    if (stat(xdg, &info) == 0 && S_ISDIR(info.st_mode) && info.st_uid == geteuid() && access(xdg, W_OK | X_OK) == 0) {
      return std::string(xdg) + "/jal";
    }
  }
  return "/tmp/jal-" + std::to_string(geteuid());
}

int open_lock(const std::string& path, int flags) {
  return open(path.c_str(), flags | O_RDWR | O_CLOEXEC | O_NOFOLLOW, 0600);
}

/// Whether the open file is still the one that the path names: its remover may have been faster.
bool is_current(int fd, const std::string& path) {
  struct stat open_file {
  }, named{};
  return fstat(fd, &open_file) == 0 && lstat(path.c_str(), &named) == 0 && open_file.st_ino == named.st_ino &&
         open_file.st_dev == named.st_dev;
}

}  // namespace

jal_status_t runtime_dir(bool create, std::string* out_path, std::string* error) {
  const std::string path = choose();
  if (create && mkdir(path.c_str(), 0700) != 0 && errno != EEXIST) {
    *error = "runtime directory " + path + " cannot be created: " + std::strerror(errno) +
             "; set JAL_RUNTIME_DIR to a directory of yours";
    return JAL_ERROR_BAD_RUNTIME_DIR;
  }
  const jal_status_t status = check_directory(path, error);
  if (status == JAL_OK) *out_path = path;
  return status;
}

bool is_instance_name(const std::string& name) {
  const auto good = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-' ||
           c == '.';
  };
  return !name.empty() && name.size() <= kInstanceNameBytesMax && name[0] != '.' &&
         std::all_of(name.begin(), name.end(), good);
}

std::string lock_path(const std::string& dir, const std::string& name) { return dir + "/" + name + kLockSuffix; }
std::string telemetry_path(const std::string& dir, const std::string& name) {
  return dir + "/" + name + kTelemetrySuffix;
}

bool instance_is_alive(const std::string& dir, const std::string& name) {
  const int fd = open(lock_path(dir, name).c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
  if (fd < 0) return false;
  const bool held = flock(fd, LOCK_SH | LOCK_NB) != 0 && errno == EWOULDBLOCK;
  close(fd);
  return held;
}

std::vector<std::string> instance_names(const std::string& dir) {
  std::vector<std::string> names;
  DIR* open_dir = opendir(dir.c_str());
  if (open_dir == nullptr) return names;
  const std::size_t suffix = sizeof kTelemetrySuffix - 1;
  while (const dirent* entry = readdir(open_dir)) {
    const std::string file = entry->d_name;
    if (file.size() <= suffix || file.compare(file.size() - suffix, suffix, kTelemetrySuffix) != 0) continue;
    const std::string name = file.substr(0, file.size() - suffix);
    if (is_instance_name(name)) names.push_back(name);
  }
  closedir(open_dir);
  std::sort(names.begin(), names.end());
  return names;
}

jal_status_t InstanceLock::acquire(const std::string& dir, const std::string& name, std::string* error) {
  const std::string path = lock_path(dir, name);
  // A reader that asks whether the instance lives holds the lock for an instant, and a remover may unlink the file
  // between open and lock: both pass.
  for (int attempt = 0; attempt < 50; ++attempt) {
    const int fd = open_lock(path, O_CREAT);
    if (fd < 0) {
      *error =
          "lock file " + path + ": " + std::strerror(errno) + "; make its directory writable or set JAL_RUNTIME_DIR";
      return errno == EACCES || errno == EPERM || errno == EROFS ? JAL_ERROR_BAD_RUNTIME_DIR : JAL_ERROR_FILE_IO;
    }
    if (flock(fd, LOCK_EX | LOCK_NB) == 0 && is_current(fd, path)) {
      fd_ = fd;
      dir_ = dir;
      name_ = name;
      owner_ = getpid();
      return JAL_OK;
    }
    close(fd);
    usleep(1000);
  }
  *error = "instance " + name + " is running (its lock " + path + " is held); use another name, or stop it";
  return JAL_ERROR_BUSY;
}

void InstanceLock::release() {
  if (fd_ < 0) return;
  if (getpid() != owner_) return abandon();  // a forked child that exits
  // Under the lock: nobody else can have files of this name meanwhile.
  unlink(telemetry_path(dir_, name_).c_str());
  unlink(lock_path(dir_, name_).c_str());
  close(fd_);
  fd_ = -1;
}

void InstanceLock::abandon() {
  if (fd_ >= 0) close(fd_);
  fd_ = -1;
}

int remove_stale_private_instances(const std::string& dir) {
  int removed = 0;
  for (const std::string& name : instance_names(dir)) {
    if (name.rfind(kPrivatePrefix, 0) != 0) continue;
    const std::string path = lock_path(dir, name);
    // Without O_CREAT: an instance makes its lock before its telemetry file, so a missing lock is a removed one.
    const int fd = open_lock(path, 0);
    if (fd < 0) {
      removed += errno == ENOENT && unlink(telemetry_path(dir, name).c_str()) == 0;
      continue;
    }
    if (flock(fd, LOCK_EX | LOCK_NB) == 0 && is_current(fd, path)) {
      unlink(telemetry_path(dir, name).c_str());
      unlink(path.c_str());
      ++removed;
    }
    close(fd);
  }
  return removed;
}

}  // namespace jal::drv
