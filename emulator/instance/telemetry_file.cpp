// Contract: telemetry_file.hpp.
#include "emulator/instance/telemetry_file.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstring>

namespace jal::emu {
namespace {

constexpr std::uint32_t kDeviceOffset = 4096;

std::string random_name() {
  std::uint64_t random = 0;
  if (getrandom(&random, sizeof random, 0) != sizeof random) return "";
  char text[32];
  std::snprintf(text, sizeof text, "%s%016llx", drv::kPrivatePrefix, static_cast<unsigned long long>(random));
  return text;
}

void put(char* to, std::size_t bytes, const char* text) {
  const std::size_t length = std::min(std::strlen(text), bytes - 1);
  std::memset(to, 0, bytes);
  std::memcpy(to, text, length);
}

}  // namespace

jal_status_t TelemetryFile::open(const std::string& name, std::uint32_t devices, std::string* error) {
  std::string dir;
  if (const jal_status_t status = drv::runtime_dir(true, &dir, error); status != JAL_OK) return status;
  drv::remove_stale_private_instances(dir);
  is_private_ = name.empty();
  name_ = is_private_ ? random_name() : name;
  if (const jal_status_t status = lock_.acquire(dir, name_, error); status != JAL_OK) return status;

  path_ = drv::telemetry_path(dir, name_);
  unlink(path_.c_str());  // of a dead instance of this name: the lock is ours now
  const std::uint64_t bytes = kDeviceOffset + static_cast<std::uint64_t>(devices) * JAL_TELEMETRY_PAGE_BYTES;
  const auto fail = [&](const char* what, int problem) {
    *error = "telemetry file " + path_ + ": " + what + " failed: " + std::strerror(problem);
    lock_.release();
    return JAL_ERROR_FILE_IO;
  };
  const int fd = ::open(path_.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0644);
  if (fd < 0) return fail("open", errno);
  fchmod(fd, 0644);  // whatever the umask: observers read it
  // Space now: without it, the first write to a full file system would be a SIGBUS.
  int problem = posix_fallocate(fd, 0, static_cast<off_t>(bytes));
  void* memory = MAP_FAILED;
  if (problem == 0) {
    memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    problem = errno;
  }
  ::close(fd);
  if (memory == MAP_FAILED) return fail("making ", problem);
  memory_ = static_cast<std::uint8_t*>(memory);
  bytes_ = bytes;
  devices_ = devices;
  return JAL_OK;
}

void TelemetryFile::publish() {
  auto& head = *reinterpret_cast<jal_telemetry_head*>(memory_);
  head.version = JAL_TELEMETRY_VERSION;
  head.device_count = devices_;
  head.device_offset = kDeviceOffset;
  put(head.instance, sizeof head.instance, name_.c_str());
  put(head.version_text, sizeof head.version_text, JAL_VERSION_TEXT);
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  head.start_unix_ns =
      static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000u + static_cast<std::uint64_t>(now.tv_nsec);
  head.clock_kind = JAL_CLOCK_VIRTUAL;
  head.emulated = 1;
  head.is_private = 1;  // in the process of its only client, whatever its name
  head.owner_pid = static_cast<std::uint32_t>(getpid());
  put(head.program, sizeof head.program, program_invocation_short_name);
  // Pairs with a reader's acquire of magic.
  std::atomic_ref(head.magic).store(JAL_TELEMETRY_MAGIC, std::memory_order_release);
}

void TelemetryFile::close() {
  if (memory_ != nullptr) munmap(memory_, bytes_);
  memory_ = nullptr;
  lock_.release();
}

void* TelemetryFile::page(std::uint32_t device) const {
  return memory_ + kDeviceOffset + static_cast<std::uint64_t>(device) * JAL_TELEMETRY_PAGE_BYTES;
}

}  // namespace jal::emu
