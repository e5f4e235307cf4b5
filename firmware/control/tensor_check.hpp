// Whether a TensorInfo is consistent, and how many bytes it needs in a slice.
#pragma once
#include <jal/abi/tensor.h>
#include <stdint.h>

#include "firmware/control/text.hpp"

namespace jal::fw {

/// OK, BAD_TENSOR or TENSOR_DTYPE with the contradiction in `why`. Checks struct, shape, factors, mask and that
/// bytes_per_slice covers every element; not who owns the memory. Exact in 64 bits: overflow is refused.
int32_t check_tensor(const jal_tensor_info& info, uint32_t slices, Text& why);

}  // namespace jal::fw
