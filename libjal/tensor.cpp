// Tensors. Contract: jal/tensor.h.
#include <jal/tensor.h>

#include "libjal/call.hpp"
#include "runtime/tensor/descriptor.hpp"
#include "runtime/tensor/layout.hpp"
#include "runtime/tensor/transfer.hpp"

using namespace jal::face;  // NOLINT: this file is nothing but its C face

namespace {

Status read_host(const jal_tensor_info* info, const jal_tensor_host* host, jal::rt::HostArray* out) {
  JAL_RETURN_IF_ERROR(check_pointer(info, "info"));
  JAL_RETURN_IF_ERROR(check_struct(host, "jal_tensor_host"));
  JAL_RETURN_IF_ERROR(check_reserved(host->reserved, "jal_tensor_host"));
  *out = {host->dtype, host->data, host->scales};
  return {};
}

}  // namespace

jal_status_t jal_tensor_info_init(jal_tensor_info* out_info, uint32_t dtype, uint32_t ndim,
                                  const uint64_t* dims) noexcept {
  return guarded([&]() -> Status {
    JAL_RETURN_IF_ERROR(check_pointer(out_info, "out_info"));
    JAL_RETURN_IF_ERROR(check_pointer(dims, "dims"));
    return jal::rt::init_tensor(out_info, dtype, ndim, dims);
  });
}

jal_status_t jal_tensor_shard(jal_tensor_info* info, uint32_t dim, uint64_t slice_mask, uint32_t order) noexcept {
  return guarded([&]() -> Status {
    JAL_RETURN_IF_ERROR(check_pointer(info, "info"));
    if (order != JAL_TENSOR_BLOCKED && order != JAL_TENSOR_CYCLIC) {
      return fail(JAL_ERROR_INVALID_ARGUMENT, "order {}: JAL_TENSOR_BLOCKED or JAL_TENSOR_CYCLIC", order);
    }
    return jal::rt::shard_tensor(info, dim, slice_mask, order == JAL_TENSOR_CYCLIC);
  });
}

jal_status_t jal_tensor_replicate(jal_tensor_info* info, uint64_t slice_mask) noexcept {
  return guarded([&]() -> Status {
    JAL_RETURN_IF_ERROR(check_pointer(info, "info"));
    return jal::rt::replicate_tensor(info, slice_mask);
  });
}

jal_status_t jal_tensor_set_tiling(jal_tensor_info* info, uint32_t tiling) noexcept {
  return guarded([&]() -> Status {
    JAL_RETURN_IF_ERROR(check_pointer(info, "info"));
    return jal::rt::set_tensor_tiling(info, tiling);
  });
}

jal_status_t jal_tensor_check(jal_tensor_info* info) noexcept {
  return guarded([&]() -> Status {
    JAL_RETURN_IF_ERROR(check_pointer(info, "info"));
    std::uint64_t needed = 0;
    JAL_RETURN_IF_ERROR(jal::rt::check_tensor(*info, &needed));
    if (info->bytes_per_slice == 0) info->bytes_per_slice = needed;
    return {};
  });
}

jal_status_t jal_tensor_host_bytes(const jal_tensor_info* info, uint32_t dtype, uint64_t* out_bytes) noexcept {
  return guarded([&]() -> Status {
    JAL_RETURN_IF_ERROR(check_pointer(info, "info"));
    JAL_RETURN_IF_ERROR(check_pointer(out_bytes, "out_bytes"));
    auto bytes = jal::rt::host_bytes(*info, dtype);
    if (!bytes.ok()) return bytes.status();
    *out_bytes = *bytes;
    return {};
  });
}

jal_status_t jal_tensor_locate(const jal_tensor_info* info, const uint64_t* index, uint32_t* out_slice,
                               uint64_t* out_element) noexcept {
  return guarded([&]() -> Status {
    JAL_RETURN_IF_ERROR(check_pointer(info, "info"));
    JAL_RETURN_IF_ERROR(check_pointer(index, "index"));
    JAL_RETURN_IF_ERROR(check_pointer(out_slice, "out_slice"));
    JAL_RETURN_IF_ERROR(check_pointer(out_element, "out_element"));
    JAL_RETURN_IF_ERROR(jal::rt::check_tensor(*info, nullptr));
    if (info->tiling != JAL_TILING_ROW_MAJOR) {
      return fail(JAL_ERROR_TENSOR_DTYPE, "the elements of an engine tile have no place of their own");
    }
    for (std::uint32_t d = 0; d < info->ndim; ++d) {
      if (index[d] >= info->dims[d]) {
        return fail(JAL_ERROR_INVALID_ARGUMENT, "index {} of dimension {}: it has {} elements", index[d], d,
                    info->dims[d]);
      }
    }
    jal::rt::Layout(*info).locate(index, out_slice, out_element);
    return {};
  });
}

jal_status_t jal_tensor_upload(jal_device_t device, const jal_tensor_info* info, const jal_tensor_host* host,
                               uint64_t deadline_ns) noexcept {
  return with(device, [&](jal::rt::Device& object) -> Status {
    jal::rt::HostArray array;
    JAL_RETURN_IF_ERROR(read_host(info, host, &array));
    return jal::rt::upload_tensor(object, *info, array, deadline_ns);
  });
}

jal_status_t jal_tensor_download(jal_device_t device, const jal_tensor_info* info, const jal_tensor_host* host,
                                 uint64_t deadline_ns) noexcept {
  return with(device, [&](jal::rt::Device& object) -> Status {
    jal::rt::HostArray array;
    JAL_RETURN_IF_ERROR(read_host(info, host, &array));
    return jal::rt::download_tensor(object, *info, array, deadline_ns);
  });
}
