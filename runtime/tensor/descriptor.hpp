// Building and checking tensor descriptors (jal_tensor_info). Rules: jal/abi/tensor.h; firmware checks the same ones.
//
// What it is not: memory or data. Invariant: what the builders make passes check(). Threads: any; no state.
#pragma once
#include <jal/abi/tensor.h>

#include <cstdint>

#include "driver/base/status.hpp"

namespace jal::rt {

using drv::Status;

/// "bf16"; "unknown".
const char* dtype_name(std::uint32_t dtype);
/// Bits of an element without scales; 0 for an unknown type.
std::uint32_t dtype_bits(std::uint32_t dtype);
bool is_mx(std::uint32_t dtype);

/// Row-major (MX: engine tiling), whole, on slice 0. BAD_TENSOR, TENSOR_DTYPE.
Status init_tensor(jal_tensor_info* out, std::uint32_t dtype, std::uint32_t ndim, const std::uint64_t* dims);
/// Deals `dim` out over the slices of the mask, blocked or cyclically. BAD_TENSOR, BAD_SLICE_MASK.
Status shard_tensor(jal_tensor_info* info, std::uint32_t dim, std::uint64_t slice_mask, bool is_cyclic);
/// Whole on every slice of the mask. BAD_SLICE_MASK.
Status replicate_tensor(jal_tensor_info* info, std::uint64_t slice_mask);
/// TENSOR_DTYPE.
Status set_tensor_tiling(jal_tensor_info* info, std::uint32_t tiling);

/// OK with the bytes per slice that the layout needs in *out_bytes (may be nullptr). A bytes_per_slice other than 0
/// must be at least that. BAD_TENSOR, TENSOR_DTYPE, BAD_SLICE_MASK, UNALIGNED_ADDRESS; the message names field and
/// value.
Status check_tensor(const jal_tensor_info& info, std::uint64_t* out_bytes);

}  // namespace jal::rt
