// What every C function does: find objects by handle, check structs, keep exceptions inside.
//
// What it is not: logic; that is in runtime/. Invariant: no exception crosses the C ABI, outputs are written on success
// only.
#pragma once
#include <jal/api.h>

#include <exception>
#include <new>

#include "driver/base/error_frames.hpp"
#include "runtime/device.hpp"
#include "runtime/event.hpp"
#include "runtime/handle_table.hpp"
#include "runtime/library.hpp"
#include "runtime/memory.hpp"
#include "runtime/module.hpp"
#include "runtime/stream.hpp"

namespace jal::face {

using drv::fail;
using drv::Status;

/// Which object a handle type stands for.
template <typename Handle>
struct Named;
template <>
struct Named<jal_device_t> {
  using Object = rt::Device;
  static constexpr rt::Kind kKind = rt::Kind::device;
};
template <>
struct Named<jal_memory_t> {
  using Object = rt::Memory;
  static constexpr rt::Kind kKind = rt::Kind::memory;
};
template <>
struct Named<jal_stream_t> {
  using Object = rt::Stream;
  static constexpr rt::Kind kKind = rt::Kind::stream;
};
template <>
struct Named<jal_event_t> {
  using Object = rt::Event;
  static constexpr rt::Kind kKind = rt::Kind::event;
};
template <>
struct Named<jal_module_t> {
  using Object = rt::Module;
  static constexpr rt::Kind kKind = rt::Kind::module;
};
template <>
struct Named<jal_kernel_t> {
  using Object = rt::Kernel;
  static constexpr rt::Kind kKind = rt::Kind::kernel;
};

template <typename Handle>
std::uint64_t number_of(Handle handle) {
  return reinterpret_cast<std::uintptr_t>(handle);
}
template <typename Handle>
Handle handle_of(std::uint64_t number) {
  return reinterpret_cast<Handle>(static_cast<std::uintptr_t>(number));
}

/// The object, or nullptr with *out_status.
template <typename Handle>
typename Named<Handle>::Object* find(Handle handle, jal_status_t* out_status) {
  return static_cast<typename Named<Handle>::Object*>(
      rt::handles().find(number_of(handle), Named<Handle>::kKind, out_status));
}

/// Runs work(), which returns a Status.
template <typename Work>
jal_status_t guarded(Work&& work) noexcept {
  try {
    const Status status = work();
    return status.code();
  } catch (const std::bad_alloc&) {
    return fail(JAL_ERROR_OUT_OF_HOST_MEMORY, "the host has no memory left for the library; free some").code();
  } catch (const std::exception& problem) {
    return fail(JAL_ERROR_INTERNAL, "the library failed: {}", problem.what()).code();
  }
}

/// Finds the object of `handle` and runs work(object).
template <typename Handle, typename Work>
jal_status_t with(Handle handle, Work&& work) noexcept {
  return guarded([&]() -> Status {
    jal_status_t status = JAL_OK;
    auto* const object = find(handle, &status);
    if (object == nullptr) return status;
    return work(*object);
  });
}

/// INVALID_ARGUMENT unless the pointer is something.
inline Status check_pointer(const void* pointer, const char* what) {
  if (pointer != nullptr) return {};
  return fail(JAL_ERROR_INVALID_ARGUMENT, "{} is NULL", what);
}

/// INVALID_ARGUMENT for NULL, WRONG_STRUCT_SIZE for a size this library does not know.
template <typename Struct>
Status check_struct(const Struct* given, const char* name) {
  JAL_RETURN_IF_ERROR(check_pointer(given, name));
  if (given->struct_size == sizeof(Struct)) return {};
  return fail(JAL_ERROR_WRONG_STRUCT_SIZE, "{}: struct_size is {}, this library knows {}; set it to sizeof the struct",
              name, given->struct_size, sizeof(Struct));
}

/// RESERVED_NOT_ZERO if a word of the array is set.
template <std::size_t N>
Status check_reserved(const std::uint64_t (&reserved)[N], const char* name) {
  for (const std::uint64_t word : reserved) {
    if (word != 0)
      return fail(JAL_ERROR_RESERVED_NOT_ZERO, "{}: a reserved field is set; zero-initialise the struct", name);
  }
  return {};
}

/// RESERVED_NOT_ZERO for a flag that is not among `known`.
inline Status check_flags(std::uint32_t flags, std::uint32_t known, const char* name) {
  if ((flags & ~known) == 0) return {};
  return fail(JAL_ERROR_RESERVED_NOT_ZERO, "{}: flags {:#x} has unknown bits; known are {:#x}", name, flags, known);
}

/// Gives an object its handle and the caller the handle; the table has the object from here on.
template <typename Handle, typename Object>
Status hand_out(std::unique_ptr<Object>&& object, Handle* out) {
  auto handle = rt::handles().insert(Named<Handle>::kKind, object.get());
  if (!handle.ok()) return handle.status();
  (void)object.release();
  *out = handle_of<Handle>(*handle);
  return {};
}

/// The handle turns stale and its object goes.
template <typename Handle>
void take_back(Handle handle, typename Named<Handle>::Object* object) {
  rt::handles().remove(number_of(handle));
  delete object;
}

}  // namespace jal::face
