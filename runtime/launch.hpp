// Launching: arguments checked against the kernel's signature, packed into the queue's argument ring.
//
// What it is not: the public jal_argument; libjal hands its array over as it is. Invariant: every byte of the block is
// written, padding as zero. Budget: below 100 ns for a few arguments, no allocation. Threads: as Stream.
#pragma once
#include <jal/abi/tensor.h>

#include <cstdint>

#include "runtime/module.hpp"
#include "runtime/stream.hpp"

namespace jal::rt {

/// One argument: type and bytes as in the module, `data` points to its value.
struct ArgumentView {
  std::uint32_t type = 0;
  std::uint32_t bytes = 0;
  const void* data = nullptr;
};

struct LaunchOptions {
  bool may_overlap = false;
  std::uint64_t tag = 0;
};

/// BAD_ARGUMENTS, BAD_CORE_MASK, BAD_TENSOR, INVALID_ARGUMENT, and those of Stream::enqueue.
Status launch(Stream& stream, const Kernel& kernel, std::uint64_t core_mask, const ArgumentView* arguments,
              std::uint32_t argument_count, const LaunchOptions& options);

/// The block as the kernel sees it.
Status launch_packed(Stream& stream, const Kernel& kernel, std::uint64_t core_mask, const void* block,
                     std::uint32_t bytes, const LaunchOptions& options);

/// "tensor": the name of a JAL_ARGUMENT_* type.
const char* argument_type_name(std::uint32_t type);

}  // namespace jal::rt
