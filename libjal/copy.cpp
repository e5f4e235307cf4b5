// Copies and fills. Contract: jal/copy.h.
#include <jal/copy.h>

#include "libjal/call.hpp"

using namespace jal::face;  // NOLINT: this file is nothing but its C face
using jal::rt::host_address;
using jal::rt::Stream;

namespace {

/// Slices exist and the offset is one: the rest the device checks.
Status check_slices(jal::rt::Device& device, std::uint64_t slice_mask, std::uint64_t offset) {
  if (slice_mask == 0 || (slice_mask & ~device.slice_mask()) != 0) {
    return fail(JAL_ERROR_BAD_SLICE_MASK, "slice mask {:#x}: device {} has slices 0..{}, at least one must be named",
                slice_mask, device.index(), device.chip().slices - 1);
  }
  if (offset > UINT32_MAX) {
    return fail(JAL_ERROR_BAD_ADDRESS, "offset {:#x} is no offset within a slice, which are below 4 GiB", offset);
  }
  return {};
}

Status to_device(Stream& stream, std::uint64_t dst, const void* src, std::uint64_t bytes) {
  JAL_RETURN_IF_ERROR(check_pointer(src, "src"));
  return stream.copy(dst, host_address(src), bytes, 0);
}

Status to_host(Stream& stream, void* dst, std::uint64_t src, std::uint64_t bytes) {
  JAL_RETURN_IF_ERROR(check_pointer(dst, "dst"));
  return stream.copy(host_address(dst), src, bytes, 0);
}

Status to_slices(Stream& stream, std::uint64_t mask, std::uint64_t offset, const void* src, std::uint64_t bytes) {
  JAL_RETURN_IF_ERROR(check_pointer(src, "src"));
  JAL_RETURN_IF_ERROR(check_slices(stream.device(), mask, offset));
  return stream.copy(JAL_ADDRESS_HBM(0, offset), host_address(src), bytes, mask);
}

Status from_slices(Stream& stream, void* dst, std::uint64_t mask, std::uint64_t offset, std::uint64_t bytes) {
  JAL_RETURN_IF_ERROR(check_pointer(dst, "dst"));
  JAL_RETURN_IF_ERROR(check_slices(stream.device(), mask, offset));
  return stream.copy(host_address(dst), JAL_ADDRESS_HBM(0, offset), bytes, mask);
}

template <typename Work>
jal_status_t blocking(jal_device_t device, std::uint64_t deadline_ns, Work&& work) noexcept {
  return with(device, [&](jal::rt::Device& object) { return object.run_blocking(deadline_ns, work); });
}

}  // namespace

jal_status_t jal_copy_to_device(jal_stream_t stream, jal_address_t dst, const void* src, uint64_t bytes) noexcept {
  return with(stream, [&](Stream& object) { return to_device(object, dst, src, bytes); });
}

jal_status_t jal_copy_to_host(jal_stream_t stream, void* dst, jal_address_t src, uint64_t bytes) noexcept {
  return with(stream, [&](Stream& object) { return to_host(object, dst, src, bytes); });
}

jal_status_t jal_copy_device(jal_stream_t stream, jal_address_t dst, jal_address_t src, uint64_t bytes) noexcept {
  return with(stream, [&](Stream& object) { return object.copy(dst, src, bytes, 0); });
}

jal_status_t jal_copy_to_slices(jal_stream_t stream, uint64_t slice_mask, uint64_t offset, const void* src,
                                uint64_t bytes_per_slice) noexcept {
  return with(stream, [&](Stream& object) { return to_slices(object, slice_mask, offset, src, bytes_per_slice); });
}

jal_status_t jal_copy_from_slices(jal_stream_t stream, void* dst, uint64_t slice_mask, uint64_t offset,
                                  uint64_t bytes_per_slice) noexcept {
  return with(stream, [&](Stream& object) { return from_slices(object, dst, slice_mask, offset, bytes_per_slice); });
}

jal_status_t jal_copy_fill(jal_stream_t stream, jal_address_t dst, uint32_t pattern, uint64_t bytes) noexcept {
  return with(stream, [&](Stream& object) { return object.fill(dst, pattern, bytes, 0); });
}

jal_status_t jal_copy_fill_slices(jal_stream_t stream, uint64_t slice_mask, uint64_t offset, uint32_t pattern,
                                  uint64_t bytes_per_slice) noexcept {
  return with(stream, [&](Stream& object) -> Status {
    JAL_RETURN_IF_ERROR(check_slices(object.device(), slice_mask, offset));
    return object.fill(JAL_ADDRESS_HBM(0, offset), pattern, bytes_per_slice, slice_mask);
  });
}

jal_status_t jal_copy_to_device_blocking(jal_device_t device, jal_address_t dst, const void* src, uint64_t bytes,
                                         uint64_t deadline_ns) noexcept {
  return blocking(device, deadline_ns, [&](Stream& stream) { return to_device(stream, dst, src, bytes); });
}

jal_status_t jal_copy_to_host_blocking(jal_device_t device, void* dst, jal_address_t src, uint64_t bytes,
                                       uint64_t deadline_ns) noexcept {
  return blocking(device, deadline_ns, [&](Stream& stream) { return to_host(stream, dst, src, bytes); });
}

jal_status_t jal_copy_device_blocking(jal_device_t device, jal_address_t dst, jal_address_t src, uint64_t bytes,
                                      uint64_t deadline_ns) noexcept {
  return blocking(device, deadline_ns, [&](Stream& stream) { return stream.copy(dst, src, bytes, 0); });
}

jal_status_t jal_copy_to_slices_blocking(jal_device_t device, uint64_t slice_mask, uint64_t offset, const void* src,
                                         uint64_t bytes_per_slice, uint64_t deadline_ns) noexcept {
  return blocking(device, deadline_ns,
                  [&](Stream& stream) { return to_slices(stream, slice_mask, offset, src, bytes_per_slice); });
}

jal_status_t jal_copy_from_slices_blocking(jal_device_t device, void* dst, uint64_t slice_mask, uint64_t offset,
                                           uint64_t bytes_per_slice, uint64_t deadline_ns) noexcept {
  return blocking(device, deadline_ns,
                  [&](Stream& stream) { return from_slices(stream, dst, slice_mask, offset, bytes_per_slice); });
}
