// Contract: transfer.hpp.
#include "runtime/tensor/transfer.hpp"

#include <algorithm>
#include <cstring>
#include <vector>

#include "driver/base/error_frames.hpp"
#include "runtime/stream.hpp"
#include "runtime/tensor/convert.hpp"
#include "runtime/tensor/descriptor.hpp"
#include "runtime/tensor/layout.hpp"
#include "runtime/tensor/weight_tile.hpp"

namespace jal::rt {

using drv::add_frame;
using drv::fail;

namespace {

/// What is staged before it is copied: fits the second-level cache, and is long enough for packets not to matter.
constexpr std::uint64_t kStagingBytes = 1u << 20;

bool is_float(std::uint32_t dtype) {
  return dtype == JAL_DTYPE_F32 || dtype == JAL_DTYPE_BF16 || dtype == JAL_DTYPE_F16;
}

std::uint64_t blocks_of(std::uint64_t k) { return (k + JAL_MX_BLOCK - 1) / JAL_MX_BLOCK; }

/// One transfer: the tensor, its layout, the host array, and the stream it goes through.
class Transfer {
 public:
  Transfer(Stream& stream, const jal_tensor_info& info, const HostArray& host, std::uint64_t deadline_ns)
      : stream_(stream),
        info_(info),
        layout_(info),
        host_(host),
        deadline_ns_(deadline_ns),
        element_bytes_(dtype_bits(info.dtype) / 8),
        host_element_bytes_(dtype_bits(host.dtype) / 8) {}

  Status upload() {
    for (const Layout::Part& part : layout_.parts()) {
      JAL_RETURN_IF_ERROR(info_.tiling == JAL_TILING_ENGINE ? upload_tile(part) : upload_rows(part));
    }
    return {};
  }

  Status download() {
    for (const Layout::Part& part : layout_.parts()) {
      if (part.is_replica) continue;
      JAL_RETURN_IF_ERROR(info_.tiling == JAL_TILING_ENGINE ? download_tile(part) : download_rows(part));
    }
    return {};
  }

 private:
  std::uint64_t address(const Layout::Part& part, std::uint64_t byte) const {
    return JAL_ADDRESS_HBM(part.slice, info_.offset + byte);
  }
  unsigned char* host_at(std::uint64_t element) const {
    return static_cast<unsigned char*>(host_.data) + element * host_element_bytes_;
  }
  /// Copies and waits: the host side may be reused afterwards.
  Status put(const Layout::Part& part, std::uint64_t byte, const void* from, std::uint64_t bytes) {
    if (bytes == 0) return {};
    JAL_RETURN_IF_ERROR(stream_.copy(address(part, byte), host_address(from), bytes, 0));
    return stream_.queue().wait(deadline_ns_);
  }
  Status get(const Layout::Part& part, std::uint64_t byte, void* to, std::uint64_t bytes) {
    if (bytes == 0) return {};
    JAL_RETURN_IF_ERROR(stream_.copy(host_address(to), address(part, byte), bytes, 0));
    return stream_.queue().wait(deadline_ns_);
  }
  Status put_zeros(const Layout::Part& part, std::uint64_t byte, std::uint64_t bytes) {
    const std::vector<unsigned char> zeros(std::min(bytes, kStagingBytes));
    for (std::uint64_t done = 0; done < bytes; done += zeros.size()) {
      JAL_RETURN_IF_ERROR(put(part, byte + done, zeros.data(), std::min<std::uint64_t>(zeros.size(), bytes - done)));
    }
    return {};
  }

  Status upload_rows(const Layout::Part& part) {
    const std::uint64_t used_bytes = layout_.elements_per_slice() * element_bytes_;
    if (layout_.is_dense() && host_.dtype == info_.dtype) {
      const Layout::Run run = layout_.dense_run(part);
      const std::uint64_t valid_bytes = run.valid * element_bytes_;
      JAL_RETURN_IF_ERROR(put(part, 0, host_at(run.first), valid_bytes));
      return put_zeros(part, valid_bytes, used_bytes - valid_bytes);
    }
    const std::uint64_t run_bytes = layout_.run_elements() * element_bytes_;
    const std::uint64_t runs = layout_.elements_per_slice() / layout_.run_elements();
    const std::uint64_t runs_staged = std::max<std::uint64_t>(1, std::min(runs, kStagingBytes / run_bytes));
    std::vector<unsigned char> staging(runs_staged * run_bytes);
    for (std::uint64_t first = 0; first < runs; first += runs_staged) {
      const std::uint64_t count = std::min(runs_staged, runs - first);
      for (std::uint64_t i = 0; i < count; ++i) {
        const Layout::Run run = layout_.run(part, first + i);
        unsigned char* out = staging.data() + i * run_bytes;
        convert_run(host_.dtype, host_at(run.first), run.stride, info_.dtype, out, 1, run.valid);
        std::memset(out + run.valid * element_bytes_, 0, (run.count - run.valid) * element_bytes_);
      }
      JAL_RETURN_IF_ERROR(put(part, first * run_bytes, staging.data(), count * run_bytes));
    }
    return {};
  }

  Status download_rows(const Layout::Part& part) {
    if (layout_.is_dense() && host_.dtype == info_.dtype) {
      const Layout::Run run = layout_.dense_run(part);
      return get(part, 0, host_at(run.first), run.valid * element_bytes_);
    }
    const std::uint64_t run_bytes = layout_.run_elements() * element_bytes_;
    const std::uint64_t runs = layout_.elements_per_slice() / layout_.run_elements();
    const std::uint64_t runs_staged = std::max<std::uint64_t>(1, std::min(runs, kStagingBytes / run_bytes));
    std::vector<unsigned char> staging(runs_staged * run_bytes);
    for (std::uint64_t first = 0; first < runs; first += runs_staged) {
      const std::uint64_t count = std::min(runs_staged, runs - first);
      JAL_RETURN_IF_ERROR(get(part, first * run_bytes, staging.data(), count * run_bytes));
      for (std::uint64_t i = 0; i < count; ++i) {
        const Layout::Run run = layout_.run(part, first + i);
        // A replicated innermost factor repeats one element: the first is enough.
        const std::uint64_t wanted = run.is_replica    ? 0
                                     : run.stride == 0 ? std::min<std::uint64_t>(run.valid, 1)
                                                       : run.valid;
        convert_run(info_.dtype, staging.data() + i * run_bytes, 1, host_.dtype, host_at(run.first), run.stride,
                    wanted);
      }
    }
    return {};
  }

  /// Global column of each local one; empty when they are consecutive (from *out_first on).
  std::vector<std::uint64_t> columns(const Layout::Part& part, std::uint64_t k, std::uint64_t* out_first) const {
    *out_first = layout_.global_index(part, 1, 0);
    std::vector<std::uint64_t> found;
    if (layout_.is_consecutive(1)) return found;
    for (std::uint64_t c = 0; c < k; ++c) found.push_back(layout_.global_index(part, 1, c));
    return found;
  }

  Status upload_tile(const Layout::Part& part) {
    const WeightTile tile(info_.dtype, layout_.local_extent(0), layout_.local_extent(1));
    const std::uint64_t k_host = info_.dims[1];
    std::uint64_t first = 0;
    const std::vector<std::uint64_t> gather = columns(part, tile.k, &first);
    const std::uint64_t count = first < k_host ? std::min(tile.k, k_host - first) : 0;
    const bool is_codes = is_mx(info_.dtype) && host_.dtype == info_.dtype;
    if (is_codes && (!gather.empty() || (first % JAL_MX_BLOCK != 0 && count != 0))) {
      return fail(JAL_ERROR_TENSOR_DTYPE,
                  "{} codes cannot be cut at column {}: blocks of {} share a scale; upload f32 or bf16 values instead",
                  dtype_name(info_.dtype), first, JAL_MX_BLOCK);
    }
    if (host_.dtype == JAL_DTYPE_BF16 && info_.dtype == JAL_DTYPE_BF16 && first == 0 && count == tile.k &&
        tile.k == k_host && k_host % JAL_MX_BLOCK == 0 && layout_.is_consecutive(0) && gather.empty()) {
      // Such a tile has the host array's own bytes.
      const std::uint64_t row = std::min(layout_.global_index(part, 0, 0), info_.dims[0]);
      const std::uint64_t valid_bytes = std::min(tile.rows, info_.dims[0] - row) * tile.row_bytes;
      JAL_RETURN_IF_ERROR(put(part, 0, host_at(row * k_host), valid_bytes));
      return put_zeros(part, valid_bytes, tile.bytes - valid_bytes);
    }
    std::vector<unsigned char> bytes(tile.bytes);
    zero_padding(tile, bytes.data());
    std::vector<float> values(tile.k);
    for (std::uint64_t r = 0; r < tile.rows; ++r) {
      const std::uint64_t row = layout_.global_index(part, 0, r);
      if (row >= info_.dims[0]) {
        zero_row(tile, r, bytes.data());
      } else if (is_codes) {
        const std::uint64_t row_blocks = blocks_of(k_host);
        const auto* codes =
            static_cast<const std::uint8_t*>(host_.data) + (row * row_blocks + first / JAL_MX_BLOCK) * tile.block_bytes;
        const auto* scales = static_cast<const std::uint8_t*>(host_.scales) + row * row_blocks + first / JAL_MX_BLOCK;
        pack_row_codes(tile, r, codes, scales, count, bytes.data());
      } else if (gather.empty() && host_.dtype == JAL_DTYPE_BF16 && info_.dtype == JAL_DTYPE_BF16) {
        const void* x = host_at(row * k_host + first);
        pack_row_bf16(tile, r, static_cast<const std::uint16_t*>(x), count, bytes.data());
      } else if (gather.empty() && host_.dtype == JAL_DTYPE_F32) {
        const void* x = host_at(row * k_host + first);
        pack_row_f32(tile, r, static_cast<const float*>(x), count, bytes.data());
      } else {
        gather_row(row * k_host, gather, first, count, values);
        pack_row_f32(tile, r, values.data(), tile.k, bytes.data());
      }
    }
    return put(part, 0, bytes.data(), tile.bytes);
  }

  /// A row's values as FP32, zeros where the tensor ends.
  void gather_row(std::uint64_t begin, const std::vector<std::uint64_t>& gather, std::uint64_t first,
                  std::uint64_t count, std::vector<float>& out) const {
    std::fill(out.begin(), out.end(), 0.0f);
    if (gather.empty()) {
      convert_run(host_.dtype, host_at(begin + first), 1, JAL_DTYPE_F32, out.data(), 1, count);
      return;
    }
    for (std::size_t c = 0; c < gather.size(); ++c) {
      if (gather[c] < info_.dims[1]) {
        convert_run(host_.dtype, host_at(begin + gather[c]), 1, JAL_DTYPE_F32, &out[c], 1, 1);
      }
    }
  }

  Status download_tile(const Layout::Part& part) {
    const WeightTile tile(info_.dtype, layout_.local_extent(0), layout_.local_extent(1));
    const std::uint64_t k_host = info_.dims[1];
    std::uint64_t first = 0;
    const std::vector<std::uint64_t> gather = columns(part, tile.k, &first);
    const std::uint64_t count = first < k_host ? std::min(tile.k, k_host - first) : 0;
    const bool is_codes = is_mx(info_.dtype) && host_.dtype == info_.dtype;
    if (is_codes && (!gather.empty() || (first % JAL_MX_BLOCK != 0 && count != 0))) {
      return fail(JAL_ERROR_TENSOR_DTYPE, "{} codes cannot be cut at column {}; download f32 or bf16 values instead",
                  dtype_name(info_.dtype), first);
    }
    std::vector<unsigned char> bytes(tile.bytes);
    JAL_RETURN_IF_ERROR(get(part, 0, bytes.data(), tile.bytes));
    std::vector<float> values(tile.k);
    std::vector<std::uint8_t> codes(tile.row_bytes), scales(tile.blocks);
    for (std::uint64_t r = 0; r < tile.rows; ++r) {
      const std::uint64_t row = layout_.global_index(part, 0, r);
      if (row >= info_.dims[0]) continue;
      if (is_codes) {
        const std::uint64_t row_blocks = blocks_of(k_host), at = row * row_blocks + first / JAL_MX_BLOCK;
        unpack_row_codes(tile, r, bytes.data(), codes.data(), scales.data());
        std::memcpy(static_cast<std::uint8_t*>(host_.data) + at * tile.block_bytes, codes.data(),
                    blocks_of(count) * tile.block_bytes);
        std::memcpy(static_cast<std::uint8_t*>(host_.scales) + at, scales.data(), blocks_of(count));
        continue;
      }
      unpack_row_f32(tile, r, bytes.data(), tile.k, values.data());
      if (gather.empty()) {
        convert_run(JAL_DTYPE_F32, values.data(), 1, host_.dtype, host_at(row * k_host + first), 1, count);
        continue;
      }
      for (std::size_t c = 0; c < gather.size(); ++c) {
        if (gather[c] < k_host) {
          convert_run(JAL_DTYPE_F32, &values[c], 1, host_.dtype, host_at(row * k_host + gather[c]), 1, 1);
        }
      }
    }
    return {};
  }

  Stream& stream_;
  const jal_tensor_info& info_;
  const Layout layout_;
  const HostArray& host_;
  const std::uint64_t deadline_ns_;
  const std::uint64_t element_bytes_;
  const std::uint64_t host_element_bytes_;
};

Status check_transfer(Device& device, const jal_tensor_info& info, const HostArray& host) {
  std::uint64_t needed = 0;
  JAL_RETURN_IF_ERROR(check_tensor(info, &needed));
  if ((info.slice_mask & ~device.slice_mask()) != 0) {
    return fail(JAL_ERROR_BAD_SLICE_MASK, "the tensor's slice mask {:#x}: device {} has slices 0..{}", info.slice_mask,
                device.index(), device.chip().slices - 1);
  }
  if (info.offset > device.chip().slice_bytes || needed > device.chip().slice_bytes - info.offset) {
    return fail(JAL_ERROR_TENSOR_RANGE, "offset {:#x} + {} bytes reach beyond a slice, which has {}", info.offset,
                needed, device.chip().slice_bytes);
  }
  const bool is_codes = is_mx(info.dtype) && host.dtype == info.dtype;
  const bool fits =
      is_codes || (info.tiling == JAL_TILING_ENGINE ? is_float(host.dtype) : is_convertible(host.dtype, info.dtype));
  if (!fits) {
    return fail(JAL_ERROR_TENSOR_DTYPE, "no conversion between host {} and tensor {}; convert the array first",
                dtype_name(host.dtype), dtype_name(info.dtype));
  }
  if (host.data == nullptr || (is_codes && host.scales == nullptr)) {
    return fail(JAL_ERROR_INVALID_ARGUMENT, "the host array's {} are NULL", host.data == nullptr ? "data" : "scales");
  }
  return {};
}

}  // namespace

Status upload_tensor(Device& device, const jal_tensor_info& info, const HostArray& host, std::uint64_t deadline_ns) {
  JAL_RETURN_IF_ERROR(check_transfer(device, info, host));
  const Status status = device.run_blocking(
      deadline_ns, [&](Stream& stream) { return Transfer(stream, info, host, deadline_ns).upload(); });
  return add_frame(status, "uploading a {} tensor to offset {:#x} of slices {:#x}", dtype_name(info.dtype), info.offset,
                   info.slice_mask);
}

Status download_tensor(Device& device, const jal_tensor_info& info, const HostArray& host, std::uint64_t deadline_ns) {
  JAL_RETURN_IF_ERROR(check_transfer(device, info, host));
  const Status status = device.run_blocking(
      deadline_ns, [&](Stream& stream) { return Transfer(stream, info, host, deadline_ns).download(); });
  return add_frame(status, "downloading a {} tensor from offset {:#x} of slices {:#x}", dtype_name(info.dtype),
                   info.offset, info.slice_mask);
}

Result<std::uint64_t> host_bytes(const jal_tensor_info& info, std::uint32_t dtype) {
  const Status status = check_tensor(info, nullptr);
  if (!status.ok()) return status;
  if (dtype == 0) dtype = info.dtype;
  if (dtype_bits(dtype) == 0) return fail(JAL_ERROR_TENSOR_DTYPE, "dtype {} is unknown (JAL_DTYPE_*)", dtype);
  std::uint64_t elements = 1;
  for (std::uint32_t d = 0; d < info.ndim; ++d) {
    const bool is_padded = is_mx(dtype) && d + 1 == info.ndim;
    elements *= is_padded ? blocks_of(info.dims[d]) * JAL_MX_BLOCK : info.dims[d];
  }
  return elements * dtype_bits(dtype) / 8;
}

}  // namespace jal::rt
