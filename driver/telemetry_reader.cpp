// Contract: telemetry_reader.hpp.
#include "driver/telemetry_reader.hpp"

#include <fcntl.h>
#include <sched.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "driver/base/error_frames.hpp"
#include "driver/base/runtime_dir.hpp"

namespace jal::drv {
namespace {

/// Writers hold a page for less than a microsecond; only one that lost its CPU in between holds it longer.
constexpr int kYieldTries = 200, kSleepTries = 20;
constexpr long kSleepNs = 1'000'000;

bool read_exactly(int fd, void* out, std::size_t bytes, std::uint64_t offset) {
  auto* to = static_cast<unsigned char*>(out);
  while (bytes > 0) {
    const ssize_t got = pread(fd, to, bytes, static_cast<off_t>(offset));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return false;
    to += got;
    offset += static_cast<std::uint64_t>(got);
    bytes -= static_cast<std::size_t>(got);
  }
  return true;
}

/// One try: the sequence is read alone before and after, since nothing orders the bytes within one pread.
bool read_whole(int fd, std::uint64_t offset, jal_telemetry_page* out, bool* cut) {
  std::uint64_t before = 0, after = 0;
  *cut = !read_exactly(fd, &before, sizeof before, offset);
  if (*cut || (before & 1u) != 0) return false;
  *cut = !read_exactly(fd, out, sizeof *out, offset) || !read_exactly(fd, &after, sizeof after, offset);
  return !*cut && before == after && out->sequence == before;
}

}  // namespace

Result<std::vector<InstanceFile>> list_instances() {
  std::string dir, error;
  const jal_status_t status = runtime_dir(false, &dir, &error);
  if (status == JAL_ERROR_FILE_NOT_FOUND) return std::vector<InstanceFile>{};
  if (status != JAL_OK) return fail(status, "{}", error);
  std::vector<InstanceFile> found;
  for (const std::string& name : instance_names(dir)) {
    found.push_back({name, telemetry_path(dir, name), instance_is_alive(dir, name)});
  }
  return found;
}

TelemetryFile::~TelemetryFile() {
  if (fd_ >= 0) close(fd_);
}
TelemetryFile::TelemetryFile(TelemetryFile&& other) noexcept
    : fd_(std::exchange(other.fd_, -1)), path_(std::move(other.path_)), head_(other.head_) {}
TelemetryFile& TelemetryFile::operator=(TelemetryFile&& other) noexcept {
  std::swap(fd_, other.fd_);
  std::swap(path_, other.path_);
  std::swap(head_, other.head_);
  return *this;
}

Result<TelemetryFile> TelemetryFile::open(const std::string& path) {
  TelemetryFile file;
  file.path_ = path;
  // O_NONBLOCK: a pipe put in the file's place must not block the reader.
  file.fd_ = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
  if (file.fd_ < 0) {
    const int reason = errno;
    const jal_status_t status = reason == EACCES ? JAL_ERROR_NO_PERMISSION : JAL_ERROR_NO_TELEMETRY;
    return fail(status, "telemetry file {}: {}; start an instance, or set JAL_RUNTIME_DIR", path, strerror(reason));
  }
  struct stat info {};
  if (fstat(file.fd_, &info) != 0 || !S_ISREG(info.st_mode) ||
      static_cast<std::uint64_t>(info.st_size) < sizeof(jal_telemetry_head) ||
      !read_exactly(file.fd_, &file.head_, sizeof file.head_, 0)) {
    return fail(JAL_ERROR_BAD_TELEMETRY, "telemetry file {} has {} bytes; its head alone has {}: it is not one", path,
                static_cast<std::int64_t>(info.st_size), sizeof(jal_telemetry_head));
  }
  jal_telemetry_head& head = file.head_;
  if (head.magic != JAL_TELEMETRY_MAGIC) {
    return fail(JAL_ERROR_BAD_TELEMETRY, "telemetry file {} begins with {:#x}, not {:#x}: {}", path, head.magic,
                JAL_TELEMETRY_MAGIC, head.magic == 0 ? "its instance is still starting" : "it is not one");
  }
  if (head.version != JAL_TELEMETRY_VERSION) {
    return fail(JAL_ERROR_BAD_TELEMETRY,
                "telemetry file {} has version {}; this reader knows {}: use one of its release", path, head.version,
                JAL_TELEMETRY_VERSION);
  }
  const std::uint64_t end =
      std::uint64_t{head.device_offset} + std::uint64_t{head.device_count} * JAL_TELEMETRY_PAGE_BYTES;
  if (head.device_count > kDevicesMax || head.device_offset < sizeof head ||
      end > static_cast<std::uint64_t>(info.st_size)) {
    return fail(JAL_ERROR_BAD_TELEMETRY, "telemetry file {} claims {} devices from byte {}, but has {} bytes", path,
                head.device_count, head.device_offset, static_cast<std::int64_t>(info.st_size));
  }
  head.instance[sizeof head.instance - 1] = '\0';
  head.version_text[sizeof head.version_text - 1] = '\0';
  head.program[sizeof head.program - 1] = '\0';
  return file;
}

Status TelemetryFile::read(std::uint32_t device, jal_telemetry_page* out) const {
  if (device >= head_.device_count) {
    return fail(JAL_ERROR_NO_DEVICE, "telemetry of device {}: the instance has {}", device, head_.device_count);
  }
  const std::uint64_t offset = std::uint64_t{head_.device_offset} + std::uint64_t{device} * JAL_TELEMETRY_PAGE_BYTES;
  jal_telemetry_page page;
  for (int tries = 0; tries < kYieldTries + kSleepTries; ++tries) {
    bool cut = false;
    if (read_whole(fd_, offset, &page, &cut)) {
      if (page.count > JAL_TELEMETRY_ENTRIES) {
        return fail(JAL_ERROR_BAD_TELEMETRY, "telemetry of device {}: {} entries; a page holds {}", device, page.count,
                    JAL_TELEMETRY_ENTRIES);
      }
      page.model[sizeof page.model - 1] = '\0';
      *out = page;
      return {};
    }
    if (cut) {
      return fail(JAL_ERROR_BAD_TELEMETRY, "telemetry file {} was cut short before byte {}", path_,
                  offset + JAL_TELEMETRY_PAGE_BYTES);
    }
    if (tries < kYieldTries) {
      sched_yield();
    } else {
      const timespec pause{0, kSleepNs};
      nanosleep(&pause, nullptr);
    }
  }
  return fail(JAL_ERROR_BAD_TELEMETRY,
              "telemetry of device {} stayed torn for {} tries: its writer stopped in the middle", device,
              kYieldTries + kSleepTries);
}

std::optional<std::uint64_t> find_value(const jal_telemetry_page& page, std::uint32_t tag, std::uint32_t index) {
  const std::uint32_t count = std::min(page.count, JAL_TELEMETRY_ENTRIES);
  for (std::uint32_t i = 0; i < count; ++i) {
    if (page.entry[i].tag == tag && page.entry[i].index == index) return page.entry[i].value;
  }
  return std::nullopt;
}

}  // namespace jal::drv
