// Moving tensors between plain host arrays and their placement on a device, with conversion of type and layout.
//
// What it is not: part of a stream's order; a transfer blocks until its data is in place. Invariant: padding is written
// as zero. After a failure the destination's contents are undefined. Threads: any; transfers of a device take turns.
#pragma once
#include <jal/abi/tensor.h>

#include <cstdint>

#include "runtime/device.hpp"

namespace jal::rt {

/// A plain host array, row-major and dense. MX codes: rows padded to 32 elements, scales beside them.
struct HostArray {
  std::uint32_t dtype = 0;
  void* data = nullptr;
  void* scales = nullptr;
};

/// BAD_TENSOR, TENSOR_DTYPE (no conversion), BAD_SLICE_MASK, INVALID_ARGUMENT, BAD_ADDRESS, TIMEOUT, DEVICE_LOST.
Status upload_tensor(Device& device, const jal_tensor_info& info, const HostArray& host, std::uint64_t deadline_ns);
Status download_tensor(Device& device, const jal_tensor_info& info, const HostArray& host, std::uint64_t deadline_ns);

/// Bytes of the tensor as a host array of `dtype` (0: its own).
Result<std::uint64_t> host_bytes(const jal_tensor_info& info, std::uint32_t dtype);

}  // namespace jal::rt
