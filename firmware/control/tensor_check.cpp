// Consistency of a TensorInfo. See tensor_check.hpp; the rules are those of jal/abi/tensor.h.
#include "firmware/control/tensor_check.hpp"

#include <jal/abi/status.h>

#include <bit>

namespace jal::fw {
namespace {

uint32_t bits_of_dtype(uint32_t dtype) {
  switch (dtype) {
#define JAL_FW_DTYPE(name, value, text, bits) \
  case value:                                 \
    return bits;
    JAL_DTYPE_LIST(JAL_FW_DTYPE)
#undef JAL_FW_DTYPE
    default:
      return 0;
  }
}

constexpr uint64_t round_up(uint64_t value, uint64_t to) { return (value + to - 1) / to * to; }

/// Bytes of an engine tile of `rows` rows by k (docs/engine_numerics.md, "Weight tiles").
uint64_t engine_bytes(uint32_t dtype, uint64_t rows, uint64_t k) {
  if (rows == 0) return 0;
  const uint64_t blocks = (k + JAL_MX_BLOCK - 1) / JAL_MX_BLOCK;
  if (dtype == JAL_DTYPE_BF16) return rows * blocks * 64;
  const uint64_t codes = rows * blocks * (dtype == JAL_DTYPE_MXFP8 ? 32 : 16);
  return round_up(codes, 64) + round_up(rows * blocks, 64) + 64;
}

}  // namespace

int32_t check_tensor(const jal_tensor_info& info, uint32_t slices, Text& why) {
  if (info.struct_size != sizeof(jal_tensor_info)) {
    why << "struct_size " << info.struct_size << " is not " << static_cast<uint32_t>(sizeof(jal_tensor_info));
    return JAL_ERROR_BAD_TENSOR;
  }
  uint64_t reserved = info.reserved0;
  for (const uint64_t word : info.reserved1) reserved |= word;
  if (reserved != 0) {
    why << "a reserved field is not zero";
    return JAL_ERROR_BAD_TENSOR;
  }
  const uint32_t bits = bits_of_dtype(info.dtype);
  if (bits == 0) {
    why << "dtype " << info.dtype << " is unknown";
    return JAL_ERROR_TENSOR_DTYPE;
  }
  const bool engine = info.tiling == JAL_TILING_ENGINE;
  const bool mx = info.dtype == JAL_DTYPE_MXFP8 || info.dtype == JAL_DTYPE_MXFP4;
  if (info.tiling > JAL_TILING_ENGINE || (engine && !mx && info.dtype != JAL_DTYPE_BF16) || (mx && !engine)) {
    why << "tiling " << info.tiling << " does not go with dtype " << info.dtype;
    return JAL_ERROR_TENSOR_DTYPE;
  }
  if (info.ndim < 1 || info.ndim > JAL_TENSOR_DIMS || (engine && info.ndim != 2)) {
    why << "ndim " << info.ndim << " is outside 1.." << static_cast<uint32_t>(engine ? 2 : JAL_TENSOR_DIMS);
    return JAL_ERROR_BAD_TENSOR;
  }
  if (info.nfactors < 1 || info.nfactors > JAL_TENSOR_FACTORS) {
    why << "nfactors " << info.nfactors << " is outside 1.." << static_cast<uint32_t>(JAL_TENSOR_FACTORS);
    return JAL_ERROR_BAD_TENSOR;
  }
  if (info.slice_mask == 0 || (slices < 64 && info.slice_mask >> slices != 0)) {
    why << "slice mask ";
    why.hex(info.slice_mask) << ": the chip has " << slices << " slices";
    return JAL_ERROR_BAD_SLICE_MASK;
  }
  if (info.offset % 64 != 0) {
    why << "offset ";
    why.hex(info.offset) << " is not a multiple of 64";
    return JAL_ERROR_UNALIGNED_ADDRESS;
  }
  uint64_t covered[JAL_TENSOR_DIMS] = {1, 1, 1, 1, 1, 1};
  uint64_t slice_count = 1;
  uint64_t linear = 1;
  uint64_t linear_of[JAL_TENSOR_DIMS] = {1, 1, 1, 1, 1, 1};
  for (uint32_t i = 0; i < info.nfactors; ++i) {
    const jal_tensor_factor& factor = info.factors[i];
    if (factor.extent == 0 || factor.place > JAL_PLACE_SLICE || factor.dim < -1 ||
        factor.dim >= static_cast<int32_t>(info.ndim)) {
      why << "factor " << i << " {dim " << static_cast<int32_t>(factor.dim) << ", extent " << factor.extent
          << ", place " << static_cast<uint32_t>(factor.place) << "} is not legal";
      return JAL_ERROR_BAD_TENSOR;
    }
    uint64_t& total = factor.place == JAL_PLACE_SLICE ? slice_count : linear;
    // A product of extents beyond 2^48 elements is no tensor of any chip; refusing it keeps all sums exact.
    if (total > (1ull << 48) / factor.extent) {
      why << "factor " << i << ": the extents multiply beyond 2^48";
      return JAL_ERROR_BAD_TENSOR;
    }
    total *= factor.extent;
    if (factor.dim >= 0) {
      if (covered[factor.dim] > (1ull << 48) / factor.extent) {
        why << "factor " << i << ": the extents of dimension " << static_cast<int32_t>(factor.dim)
            << " multiply beyond 2^48";
        return JAL_ERROR_BAD_TENSOR;
      }
      covered[factor.dim] *= factor.extent;
      if (factor.place == JAL_PLACE_LINEAR) linear_of[factor.dim] *= factor.extent;
    }
  }
  for (uint32_t d = 0; d < info.ndim; ++d) {
    if (info.dims[d] > covered[d]) {
      why << "dimension " << d << " has " << info.dims[d] << " elements, its factors cover " << covered[d];
      return JAL_ERROR_BAD_TENSOR;
    }
  }
  if (slice_count != static_cast<uint64_t>(std::popcount(info.slice_mask))) {
    why << "the factors span " << slice_count << " slices, the mask names "
        << static_cast<uint32_t>(std::popcount(info.slice_mask));
    return JAL_ERROR_BAD_TENSOR;
  }
  const uint64_t needed = engine ? engine_bytes(info.dtype, linear_of[0], linear_of[1]) : (linear * bits + 7) / 8;
  if (info.bytes_per_slice < needed) {
    why << "bytes_per_slice " << info.bytes_per_slice << " is below the " << needed << " bytes its layout needs";
    return JAL_ERROR_BAD_TENSOR;
  }
  return JAL_OK;
}

}  // namespace jal::fw
