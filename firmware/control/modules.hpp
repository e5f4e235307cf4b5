// Loaded modules: their kernel tables, checked, and the board's name for their code.
//
// Invariant: whatever a .jko says was checked against its own size and the contract's limits before it was used; kernel
// entries are copies, so the file may go away after load().
#pragma once
#include <jal/abi/module.h>
#include <jal/abi/packet.h>
#include <stdint.h>

#include <jal/hal/board.hpp>

namespace jal::fw {

inline constexpr uint32_t kMaxModules = 64;
inline constexpr uint32_t kMaxKernels = 1024;

class ModuleTable {
 public:
  /// Checks `bytes` bytes at `file` and makes the code runnable. *out_id is 1 .. kMaxModules. BAD_MODULE, MODULE_LIMIT,
  /// or what the board says; fault.text has the reason.
  int32_t load(hal::Board& board, uint32_t client, const uint8_t* file, uint64_t bytes, uint32_t* out_id,
               hal::FaultReport& fault);
  /// False: not this client's.
  bool unload(hal::Board& board, uint32_t client, uint32_t id);
  void unload_all(hal::Board& board, uint32_t client);
  /// The kernel's entry and code, or nullptr.
  const jal_kernel_entry* find(uint32_t client, uint32_t id, uint32_t kernel, uint32_t* out_code) const;
  uint32_t kernel_count(uint32_t id) const { return modules_[id - 1].kernel_count; }

 private:
  struct Module {
    uint32_t code;
    uint32_t first_kernel;
    uint32_t kernel_count;
    uint16_t client;
    uint16_t is_used;
  };
  bool place(uint32_t count, uint32_t* out_first) const;

  Module modules_[kMaxModules];
  jal_kernel_entry kernels_[kMaxKernels];
};

/// OK, or BAD_MODULE with the reason. Touches nothing outside [file, file + bytes); *out_header is the copy that was
/// checked, since the file may change under the reader.
int32_t check_module(const uint8_t* file, uint64_t bytes, jal_module_header* out_header, hal::FaultReport& fault);

}  // namespace jal::fw
