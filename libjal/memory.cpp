// Memory. Contract: jal/memory.h.
#include <jal/memory.h>

#include "libjal/call.hpp"
#include "runtime/host_buffers.hpp"

using namespace jal::face;  // NOLINT: this file is nothing but its C face

jal_status_t jal_memory_alloc(jal_device_t device, const jal_memory_options* options,
                              jal_memory_t* out_memory) noexcept {
  return with(device, [&](jal::rt::Device& object) -> Status {
    JAL_RETURN_IF_ERROR(check_pointer(out_memory, "out_memory"));
    JAL_RETURN_IF_ERROR(check_struct(options, "jal_memory_options"));
    JAL_RETURN_IF_ERROR(check_reserved(options->reserved, "jal_memory_options"));
    JAL_RETURN_IF_ERROR(check_flags(options->flags, JAL_MEMORY_HOST_VISIBLE | JAL_MEMORY_PINNED, "jal_memory_options"));
    const bool is_pinned = (options->flags & JAL_MEMORY_PINNED) != 0;
    const bool is_host = (options->flags & JAL_MEMORY_HOST_VISIBLE) != 0;
    if (is_host && options->slice_mask != 0) {
      return fail(JAL_ERROR_BAD_SLICE_MASK,
                  "slice mask {:#x} with JAL_MEMORY_HOST_VISIBLE: host-visible memory lies in no slice; set it to 0",
                  options->slice_mask);
    }
    auto memory = is_host
                      ? jal::rt::Memory::alloc_host(object, options->bytes_per_slice, is_pinned, true)
                      : jal::rt::Memory::alloc_hbm(object, options->slice_mask, options->bytes_per_slice, is_pinned);
    if (!memory.ok()) return memory.status();
    const Status handed = hand_out(std::move(*memory), out_memory);
    if (!handed.ok()) {
      const jal::drv::MessageKeeper keep;
      (*memory)->free().ignore();
    }
    return handed;
  });
}

jal_status_t jal_memory_free(jal_memory_t memory) noexcept {
  return with(memory, [&](jal::rt::Memory& object) -> Status {
    JAL_RETURN_IF_ERROR(object.free());
    take_back(memory, &object);
    return {};
  });
}

jal_status_t jal_memory_get_info(jal_memory_t memory, jal_memory_info* out_info) noexcept {
  return with(memory, [&](jal::rt::Memory& object) -> Status {
    JAL_RETURN_IF_ERROR(check_struct(out_info, "jal_memory_info"));
    jal_memory_info info{};
    info.struct_size = sizeof info;
    info.flags = (object.host_pointer() != nullptr ? JAL_MEMORY_HOST_VISIBLE : 0u) |
                 (object.is_pinned() ? JAL_MEMORY_PINNED : 0u);
    info.slice_mask = object.slice_mask();
    info.bytes_per_slice = object.bytes_per_slice();
    info.granted_per_slice = object.granted_per_slice();
    info.offset = object.offset();
    info.address = object.address();
    info.host_pointer = object.host_pointer();
    *out_info = info;
    return {};
  });
}

jal_status_t jal_memory_address(jal_memory_t memory, uint32_t slice, uint64_t offset,
                                jal_address_t* out_address) noexcept {
  return with(memory, [&](jal::rt::Memory& object) -> Status {
    JAL_RETURN_IF_ERROR(check_pointer(out_address, "out_address"));
    return object.address_in(slice, offset, out_address);
  });
}

jal_status_t jal_memory_map(jal_memory_t memory, void** out_pointer) noexcept {
  return with(memory, [&](jal::rt::Memory& object) -> Status {
    JAL_RETURN_IF_ERROR(check_pointer(out_pointer, "out_pointer"));
    if (object.host_pointer() == nullptr) {
      return fail(JAL_ERROR_NOT_HOST_VISIBLE,
                  "memory at {:#x} lies in HBM, which the host cannot map; copy it, or allocate with "
                  "JAL_MEMORY_HOST_VISIBLE",
                  object.address());
    }
    *out_pointer = object.host_pointer();
    return {};
  });
}

jal_status_t jal_host_alloc(jal_device_t device, uint64_t bytes, void** out_pointer) noexcept {
  return with(device, [&](jal::rt::Device& object) -> Status {
    JAL_RETURN_IF_ERROR(check_pointer(out_pointer, "out_pointer"));
    auto pointer = jal::rt::HostBuffers::alloc(object, bytes);
    if (!pointer.ok()) return pointer.status();
    *out_pointer = *pointer;
    return {};
  });
}

jal_status_t jal_host_free(void* pointer) noexcept {
  return guarded([&]() -> Status { return jal::rt::HostBuffers::free(pointer); });
}

jal_status_t jal_memory_query(jal_device_t device, uint32_t slice, jal_memory_layers* out_layers) noexcept {
  return with(device, [&](jal::rt::Device& object) -> Status {
    JAL_RETURN_IF_ERROR(check_struct(out_layers, "jal_memory_layers"));
    auto found = jal::rt::query_memory(object, slice);
    if (!found.ok()) return found.status();
    jal_memory_layers layers{};
    layers.struct_size = sizeof layers;
    layers.slice = slice;
    layers.chip_bytes = found->chip;
    layers.reserved_bytes = found->reserved;
    layers.usable_bytes = found->usable;
    layers.free_bytes = found->free;
    layers.used_by_me_bytes = found->mine;
    layers.largest_free_bytes = found->largest_free;
    layers.host_budget_bytes = found->budget;
    layers.host_used_bytes = found->budget_used;
    *out_layers = layers;
    return {};
  });
}
