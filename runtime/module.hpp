// Modules and kernels: the host's copy of a .jko's kernel table, and the device's id for its code.
//
// What it is not: a loader; firmware checks the file and makes the code runnable. Invariant: the table was checked here
// against the file's own size as well, so a kernel's signature can be trusted. Threads: any.
#pragma once
#include <jal/abi/module.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "runtime/device.hpp"

namespace jal::rt {

class Module;

/// One kernel of a module; lives as long as it.
struct Kernel {
  Module* module = nullptr;
  std::uint32_t index = 0;
  jal_kernel_entry entry{};
  std::uint64_t handle = 0;  // made on first use
};

class Module {
 public:
  /// `bytes` are the contents of a .jko; they may go away afterwards. `name` is for messages. BAD_MODULE, MODULE_ARCH,
  /// MODULE_LOAD, MODULE_LIMIT, DEVICE_LOST, FIRMWARE_HUNG.
  static Result<std::unique_ptr<Module>> load(Device& device, const void* bytes, std::uint64_t byte_count,
                                              const std::string& name);
  /// Reads the file first. FILE_NOT_FOUND, FILE_IO.
  static Result<std::unique_ptr<Module>> load_file(Device& device, const std::string& path);
  Module(const Module&) = delete;
  Module& operator=(const Module&) = delete;

  /// QUEUE_BUSY while the device has pending work.
  Status unload();

  Device& device() { return device_; }
  std::uint32_t id() const { return id_; }
  std::vector<Kernel>& kernels() { return kernels_; }
  /// NO_KERNEL with the names there are.
  Result<Kernel*> find(const std::string& name);

 private:
  explicit Module(Device& device) : device_(device) {}

  Device& device_;
  std::uint32_t id_ = 0;
  std::string name_;
  std::vector<Kernel> kernels_;
};

}  // namespace jal::rt
