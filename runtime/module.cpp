// Contract: module.hpp.
#include "runtime/module.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "driver/base/error_frames.hpp"
#include "runtime/stream.hpp"

namespace jal::rt {

using drv::add_frame;
using drv::fail;

namespace {

/// A .jko larger than this is none: code of kernels is kilobytes.
constexpr std::uint64_t kFileBytesMax = std::uint64_t{1} << 30;

/// The kernel table of a file; empty with *why if it does not fit the file. Firmware has checked all of it before: this
/// guards against bytes that changed in between.
std::vector<jal_kernel_entry> read_table(const unsigned char* bytes, std::uint64_t byte_count, std::string* why) {
  jal_module_header header;
  if (byte_count < sizeof header) {
    *why = fmt::format("{} bytes are less than a header", byte_count);
    return {};
  }
  std::memcpy(&header, bytes, sizeof header);
  if (header.kernel_count == 0 || header.kernel_count > JAL_MODULE_KERNELS_MAX || header.kernel_offset > byte_count ||
      header.kernel_count * sizeof(jal_kernel_entry) > byte_count - header.kernel_offset) {
    *why =
        fmt::format("{} kernels at byte {} do not fit {} bytes", header.kernel_count, header.kernel_offset, byte_count);
    return {};
  }
  std::vector<jal_kernel_entry> table(header.kernel_count);
  std::memcpy(table.data(), bytes + header.kernel_offset, table.size() * sizeof table[0]);
  for (jal_kernel_entry& entry : table) {
    entry.name[sizeof entry.name - 1] = '\0';
    bool fits = entry.argument_count <= JAL_KERNEL_ARGUMENTS_MAX && entry.argument_bytes <= JAL_ARGUMENT_BYTES_MAX;
    std::uint32_t end = 0;
    for (std::uint32_t i = 0; fits && i < entry.argument_count; ++i) {
      const jal_kernel_argument& argument = entry.arguments[i];
      fits = argument.offset >= end && argument.offset <= entry.argument_bytes &&
             argument.bytes <= entry.argument_bytes - argument.offset;
      end = argument.offset + argument.bytes;
    }
    if (!fits) {
      *why = fmt::format("the arguments of kernel {} overlap or do not fit its block", entry.name);
      return {};
    }
  }
  return table;
}

}  // namespace

Result<std::unique_ptr<Module>> Module::load(Device& device, const void* bytes, std::uint64_t byte_count,
                                             const std::string& name) {
  if (byte_count < sizeof(jal_module_header)) {
    return fail(JAL_ERROR_BAD_MODULE, "{} has {} bytes; a module's header alone has {}: it is truncated or no .jko",
                name, byte_count, sizeof(jal_module_header));
  }
  const auto answer = device.session().ask(JAL_MAILBOX_MODULE_LOAD, {host_address(bytes), byte_count});
  if (!answer.ok()) return add_frame(answer.status(), "loading {} on device {}", name, device.index());
  if (answer->status != JAL_OK) {
    // The firmware's reason travels as an error record.
    const auto record = device.session().record(static_cast<std::uint32_t>(answer->word[0]));
    const bool has_words = record && record->status == answer->status && record->text[0] != '\0';
    return add_frame(fail(answer->status, "{}; {}", has_words ? record->text : drv::status_text(answer->status),
                          drv::status_advice(answer->status)),
                     "loading {} ({} bytes) on device {}", name, byte_count, device.index());
  }
  std::unique_ptr<Module> module(new Module(device));
  module->id_ = static_cast<std::uint32_t>(answer->word[0]);
  module->name_ = name;
  std::string why;
  const std::vector<jal_kernel_entry> table = read_table(static_cast<const unsigned char*>(bytes), byte_count, &why);
  if (table.empty()) {
    const drv::MessageKeeper keep;
    (void)module->unload();
    return fail(JAL_ERROR_BAD_MODULE, "{}: {}; its bytes changed while it was loaded", name, why);
  }
  module->kernels_.resize(table.size());
  for (std::uint32_t i = 0; i < table.size(); ++i) module->kernels_[i] = {module.get(), i, table[i], 0};
  return module;
}

Result<std::unique_ptr<Module>> Module::load_file(Device& device, const std::string& path) {
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) {
    return fail(JAL_ERROR_FILE_NOT_FOUND, "module {}: {}; check the path", path, std::strerror(errno));
  }
  struct stat info {};
  std::vector<unsigned char> bytes;
  const char* why = nullptr;
  if (fstat(fd, &info) != 0 || !S_ISREG(info.st_mode)) {
    why = "it is no regular file";
  } else if (static_cast<std::uint64_t>(info.st_size) > kFileBytesMax) {
    why = "it is larger than 1 GiB, which no module is";
  } else {
    bytes.resize(static_cast<std::size_t>(info.st_size));
    std::size_t done = 0;
    while (done < bytes.size()) {
      const ssize_t got = read(fd, bytes.data() + done, bytes.size() - done);
      if (got < 0 && errno == EINTR) continue;
      if (got <= 0) {
        why = got < 0 ? std::strerror(errno) : "it was cut short while it was read";
        break;
      }
      done += static_cast<std::size_t>(got);
    }
  }
  close(fd);
  if (why != nullptr) return fail(JAL_ERROR_FILE_IO, "module {}: {}", path, why);
  return load(device, bytes.data(), bytes.size(), path);
}

Status Module::unload() {
  const auto answer = device_.session().ask(JAL_MAILBOX_MODULE_UNLOAD, {id_});
  if (answer.code() == JAL_ERROR_DEVICE_LOST) return {};  // its modules went with it
  if (!answer.ok()) return add_frame(answer.status(), "unloading {}", name_);
  if (answer->status == JAL_OK) return {};
  if (answer->status == JAL_ERROR_QUEUE_BUSY) {
    return fail(answer->status, "device {} has pending work that may use {}; synchronise its streams first",
                device_.index(), name_);
  }
  return refused(*answer, "unloading {} from device {}", name_, device_.index());
}

Result<Kernel*> Module::find(const std::string& name) {
  std::string names;
  for (Kernel& kernel : kernels_) {
    if (name == kernel.entry.name) return &kernel;
    names += (names.empty() ? "" : ", ") + std::string(kernel.entry.name);
  }
  return fail(JAL_ERROR_NO_KERNEL, "{} has no kernel {}; it has {}", name_, name, names);
}

}  // namespace jal::rt
