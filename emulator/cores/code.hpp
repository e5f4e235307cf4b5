// Code of modules on the native cores: the ELF of a .jko, loaded from memory, with the kernels' entry points.
//
// What it is not: a checker; the firmware has checked the module's ranges and checksum. Equal code shares one load.
#pragma once
#include <jal/abi/module.h>
#include <jal/kernel/core_abi.h>

#include <cstdint>
#include <jal/hal/board.hpp>
#include <memory>
#include <string>
#include <vector>

namespace jal::emu {

class CodeTable {
 public:
  /// 0, MODULE_ARCH (no native section, or another kernel SDK), MODULE_LOAD with the loader's words in fault.text.
  std::int32_t load(const void* module, std::uint64_t bytes, std::uint32_t* out_code, hal::FaultReport& fault);
  void unload(std::uint32_t code);
  /// nullptr: no such code or kernel.
  jal_kernel_function find(std::uint32_t code, std::uint32_t kernel) const;

 private:
  struct Library {
    Library() = default;
    ~Library();
    Library(const Library&) = delete;
    Library& operator=(const Library&) = delete;
    std::vector<std::uint8_t> image;  // code and kernel table: a build id is only what the file says of itself
    void* handle = nullptr;
    int fd = -1;
    std::vector<jal_kernel_function> kernels;
  };
  std::vector<std::shared_ptr<Library>> codes_;  // code - 1; null: free
};

}  // namespace jal::emu
