// Pinned host buffers, known by their address: what jal_host_alloc gives and jal_host_free takes.
//
// What it is not: the only memory a copy reaches; any memory of the process will do. Threads: any.
#pragma once
#include <cstdint>

#include "runtime/device.hpp"

namespace jal::rt {

class HostBuffers {
 public:
  /// OUT_OF_HOST_MEMORY, INVALID_ARGUMENT.
  static Result<void*> alloc(Device& device, std::uint64_t bytes);
  /// INVALID_HANDLE, MEMORY_BUSY.
  static Status free(void* pointer);
  /// At shutdown.
  static void release_all();
};

}  // namespace jal::rt
