// Contract: descriptor.hpp.
#include "runtime/tensor/descriptor.hpp"

#include <bit>

#include "driver/base/error_frames.hpp"
#include "runtime/tensor/weight_tile.hpp"

namespace jal::rt {

using drv::add_frame;
using drv::fail;

namespace {

/// No tensor of any chip has more elements; refusing more keeps every product below exact. The firmware's limit as
/// well.
constexpr std::uint64_t kElementsMax = std::uint64_t{1} << 48;

bool multiply(std::uint64_t* total, std::uint64_t by) {
  if (*total > kElementsMax / by) return false;
  *total *= by;
  return true;
}

jal_tensor_factor factor(int dim, std::uint64_t extent, std::uint32_t place) {
  return {static_cast<std::int16_t>(dim), static_cast<std::uint16_t>(place), static_cast<std::uint32_t>(extent)};
}

/// Writes the placement: `dealt` >= 0: that dimension over `slices`; -1: replicated over them.
Status place(jal_tensor_info* info, int dealt, std::uint64_t slice_mask, bool is_cyclic) {
  if (slice_mask == 0) return fail(JAL_ERROR_BAD_SLICE_MASK, "slice mask 0: name at least one slice");
  jal_tensor_info placed = *info;
  const auto slices = static_cast<std::uint64_t>(std::popcount(slice_mask));
  placed.slice_mask = slice_mask;
  placed.nfactors = 0;
  const auto add = [&](const jal_tensor_factor& one) { placed.factors[placed.nfactors++] = one; };
  for (jal_tensor_factor& one : placed.factors) one = {};
  const bool slices_first = dealt < 0 ? slices > 1 : !is_cyclic;
  if (slices_first) add(factor(dealt, slices, JAL_PLACE_SLICE));
  for (int d = 0; d < static_cast<int>(placed.ndim); ++d) {
    const std::uint64_t extent = d == dealt ? (placed.dims[d] + slices - 1) / slices : placed.dims[d];
    add(factor(d, extent, JAL_PLACE_LINEAR));
    if (d == dealt && is_cyclic) add(factor(d, slices, JAL_PLACE_SLICE));
  }
  placed.bytes_per_slice = 0;
  std::uint64_t bytes = 0;
  JAL_RETURN_IF_ERROR(check_tensor(placed, &bytes));
  placed.bytes_per_slice = bytes;
  *info = placed;
  return {};
}

}  // namespace

const char* dtype_name(std::uint32_t dtype) {
  switch (dtype) {
#define JAL_NAME(name, value, text, bits) \
  case value:                             \
    return text;
    JAL_DTYPE_LIST(JAL_NAME)
#undef JAL_NAME
    default:
      return "unknown";
  }
}

std::uint32_t dtype_bits(std::uint32_t dtype) {
  switch (dtype) {
#define JAL_BITS(name, value, text, bits) \
  case value:                             \
    return bits;
    JAL_DTYPE_LIST(JAL_BITS)
#undef JAL_BITS
    default:
      return 0;
  }
}

bool is_mx(std::uint32_t dtype) { return dtype == JAL_DTYPE_MXFP8 || dtype == JAL_DTYPE_MXFP4; }

Status init_tensor(jal_tensor_info* out, std::uint32_t dtype, std::uint32_t ndim, const std::uint64_t* dims) {
  if (ndim < 1 || ndim > JAL_TENSOR_DIMS) {
    return fail(JAL_ERROR_BAD_TENSOR, "a tensor of {} dimensions: 1 to {}", ndim, JAL_TENSOR_DIMS);
  }
  jal_tensor_info info{};
  info.struct_size = sizeof info;
  info.dtype = dtype;
  info.tiling = is_mx(dtype) ? JAL_TILING_ENGINE : JAL_TILING_ROW_MAJOR;
  info.ndim = ndim;
  for (std::uint32_t d = 0; d < JAL_TENSOR_DIMS; ++d) info.dims[d] = d < ndim ? dims[d] : 1;
  for (std::uint32_t d = 0; d < ndim; ++d) {
    if (dims[d] == 0 || dims[d] > UINT32_MAX) {
      return fail(JAL_ERROR_BAD_TENSOR, "dimension {} has {} elements: 1 to {}", d, dims[d], UINT32_MAX);
    }
  }
  JAL_RETURN_IF_ERROR(place(&info, -1, 1, false));
  *out = info;
  return {};
}

Status shard_tensor(jal_tensor_info* info, std::uint32_t dim, std::uint64_t slice_mask, bool is_cyclic) {
  JAL_RETURN_IF_ERROR(check_tensor(*info, nullptr));
  if (dim >= info->ndim) {
    return fail(JAL_ERROR_BAD_TENSOR, "dimension {} of a tensor with {}", dim, info->ndim);
  }
  return place(info, static_cast<int>(dim), slice_mask, is_cyclic);
}

Status replicate_tensor(jal_tensor_info* info, std::uint64_t slice_mask) {
  JAL_RETURN_IF_ERROR(check_tensor(*info, nullptr));
  return place(info, -1, slice_mask, false);
}

Status set_tensor_tiling(jal_tensor_info* info, std::uint32_t tiling) {
  jal_tensor_info tiled = *info;
  tiled.tiling = tiling;
  tiled.bytes_per_slice = 0;
  std::uint64_t bytes = 0;
  JAL_RETURN_IF_ERROR(check_tensor(tiled, &bytes));
  tiled.bytes_per_slice = bytes;
  *info = tiled;
  return {};
}

Status check_tensor(const jal_tensor_info& info, std::uint64_t* out_bytes) {
  if (info.struct_size != sizeof info) {
    return fail(JAL_ERROR_BAD_TENSOR, "struct_size {} is not {}; build the descriptor with jal_tensor_info_init",
                info.struct_size, sizeof info);
  }
  std::uint64_t reserved = info.reserved0;
  for (const std::uint64_t word : info.reserved1) reserved |= word;
  if (reserved != 0) return fail(JAL_ERROR_BAD_TENSOR, "a reserved field of the tensor is not zero");
  const std::uint32_t bits = dtype_bits(info.dtype);
  if (bits == 0) return fail(JAL_ERROR_TENSOR_DTYPE, "dtype {} is unknown (JAL_DTYPE_*)", info.dtype);
  const bool is_engine = info.tiling == JAL_TILING_ENGINE;
  if (info.tiling > JAL_TILING_ENGINE) {
    return fail(JAL_ERROR_TENSOR_DTYPE, "tiling {} is unknown (JAL_TILING_*)", info.tiling);
  }
  if (is_engine && info.dtype != JAL_DTYPE_BF16 && !is_mx(info.dtype)) {
    return fail(JAL_ERROR_TENSOR_DTYPE, "engine tiling holds bf16, mxfp8 or mxfp4, not {}", dtype_name(info.dtype));
  }
  if (!is_engine && is_mx(info.dtype)) {
    return fail(JAL_ERROR_TENSOR_DTYPE, "{} exists in engine tiling only", dtype_name(info.dtype));
  }
  const std::uint32_t ndim_max = is_engine ? 2 : JAL_TENSOR_DIMS;
  if (info.ndim < (is_engine ? 2u : 1u) || info.ndim > ndim_max) {
    return fail(JAL_ERROR_BAD_TENSOR, "a tensor of {} dimensions: {}", info.ndim,
                is_engine ? "engine tiling has 2, rows and k" : "1 to 6");
  }
  if (info.nfactors < 1 || info.nfactors > JAL_TENSOR_FACTORS) {
    return fail(JAL_ERROR_BAD_TENSOR, "{} factors: 1 to {}", info.nfactors, JAL_TENSOR_FACTORS);
  }
  if (info.slice_mask == 0) return fail(JAL_ERROR_BAD_SLICE_MASK, "the tensor's slice mask is 0");
  if (info.offset % 64 != 0) {
    return fail(JAL_ERROR_UNALIGNED_ADDRESS, "the tensor's offset {:#x} is not a multiple of 64", info.offset);
  }
  std::uint64_t slices = 1, linear = 1;
  std::uint64_t covered[JAL_TENSOR_DIMS] = {1, 1, 1, 1, 1, 1};
  std::uint64_t linear_of[JAL_TENSOR_DIMS] = {1, 1, 1, 1, 1, 1};
  for (std::uint32_t i = 0; i < info.nfactors; ++i) {
    const jal_tensor_factor& one = info.factors[i];
    if (one.extent == 0 || one.place > JAL_PLACE_SLICE || one.dim < -1 || one.dim >= static_cast<int>(info.ndim)) {
      return fail(JAL_ERROR_BAD_TENSOR,
                  "factor {}: dim {}, extent {}, place {}: dims are -1..{}, extents at least 1, places 0..1", i,
                  one.dim, one.extent, one.place, info.ndim - 1);
    }
    bool fits = multiply(one.place == JAL_PLACE_SLICE ? &slices : &linear, one.extent);
    if (one.dim >= 0) {
      fits = multiply(&covered[one.dim], one.extent) && fits;
      if (one.place == JAL_PLACE_LINEAR) linear_of[one.dim] *= one.extent;
    }
    if (!fits) return fail(JAL_ERROR_BAD_TENSOR, "factor {}: the extents multiply beyond 2^48", i);
  }
  for (std::uint32_t d = 0; d < info.ndim; ++d) {
    if (info.dims[d] == 0 || info.dims[d] > covered[d]) {
      return fail(JAL_ERROR_BAD_TENSOR, "dimension {} has {} elements, its factors cover {}", d, info.dims[d],
                  covered[d]);
    }
  }
  if (slices != static_cast<std::uint64_t>(std::popcount(info.slice_mask))) {
    return fail(JAL_ERROR_BAD_TENSOR, "the factors span {} slices, the mask {:#x} names {}", slices, info.slice_mask,
                std::popcount(info.slice_mask));
  }
  const std::uint64_t needed =
      is_engine ? WeightTile(info.dtype, linear_of[0], linear_of[1]).bytes : (linear * bits + 7) / 8;
  if (info.bytes_per_slice != 0 && info.bytes_per_slice < needed) {
    return fail(JAL_ERROR_BAD_TENSOR, "bytes_per_slice {} is below the {} bytes its layout needs", info.bytes_per_slice,
                needed);
  }
  if (out_bytes != nullptr) *out_bytes = needed;
  return {};
}

}  // namespace jal::rt
