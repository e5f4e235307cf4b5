// Modules, kernels and launch. Contracts: jal/module.h, jal/launch.h.
#include <jal/launch.h>
#include <jal/module.h>

#include <cstring>
#include <mutex>

#include "libjal/call.hpp"
#include "runtime/launch.hpp"

using namespace jal::face;  // NOLINT: this file is nothing but its C face
using jal::rt::Kernel;
using jal::rt::Module;

namespace {

Status hand_out_kernel(Kernel& kernel, jal_kernel_t* out_kernel) {
  static std::mutex* const mutex = new std::mutex;
  const std::lock_guard lock(*mutex);
  if (kernel.handle == 0) {
    auto handle = jal::rt::handles().insert(jal::rt::Kind::kernel, &kernel);
    if (!handle.ok()) return handle.status();
    kernel.handle = *handle;
  }
  *out_kernel = handle_of<jal_kernel_t>(kernel.handle);
  return {};
}

Status read_options(const jal_launch_options* options, jal::rt::LaunchOptions* out) {
  if (options == nullptr) return {};
  JAL_RETURN_IF_ERROR(check_struct(options, "jal_launch_options"));
  JAL_RETURN_IF_ERROR(check_reserved(options->reserved, "jal_launch_options"));
  JAL_RETURN_IF_ERROR(check_flags(options->flags, JAL_LAUNCH_OVERLAP, "jal_launch_options"));
  out->may_overlap = (options->flags & JAL_LAUNCH_OVERLAP) != 0;
  out->tag = options->tag;
  return {};
}

/// Where an argument's value lies and how long it is.
jal::rt::ArgumentView view_of(const jal_argument& argument) {
  const std::uint32_t fixed = jal_argument_type_bytes(argument.type);
  if (fixed == 0) return {argument.type, argument.bytes, argument.value.data};
  if (argument.type == JAL_ARGUMENT_TENSOR) return {argument.type, fixed, argument.value.tensor};
  return {argument.type, fixed, &argument.value};
}

}  // namespace

jal_status_t jal_module_load(jal_device_t device, const char* path, jal_module_t* out_module) noexcept {
  return with(device, [&](jal::rt::Device& object) -> Status {
    JAL_RETURN_IF_ERROR(check_pointer(path, "path"));
    JAL_RETURN_IF_ERROR(check_pointer(out_module, "out_module"));
    auto module = Module::load_file(object, path);
    if (!module.ok()) return module.status();
    return hand_out(std::move(*module), out_module);
  });
}

jal_status_t jal_module_load_bytes(jal_device_t device, const void* bytes, uint64_t byte_count,
                                   jal_module_t* out_module) noexcept {
  return with(device, [&](jal::rt::Device& object) -> Status {
    JAL_RETURN_IF_ERROR(check_pointer(bytes, "bytes"));
    JAL_RETURN_IF_ERROR(check_pointer(out_module, "out_module"));
    auto module = Module::load(object, bytes, byte_count, "module");
    if (!module.ok()) return module.status();
    return hand_out(std::move(*module), out_module);
  });
}

jal_status_t jal_module_unload(jal_module_t module) noexcept {
  return with(module, [&](Module& object) -> Status {
    JAL_RETURN_IF_ERROR(object.unload());
    for (const Kernel& kernel : object.kernels()) {
      if (kernel.handle != 0) jal::rt::handles().remove(kernel.handle);
    }
    take_back(module, &object);
    return {};
  });
}

jal_status_t jal_module_kernel_count(jal_module_t module, uint32_t* out_count) noexcept {
  return with(module, [&](Module& object) -> Status {
    JAL_RETURN_IF_ERROR(check_pointer(out_count, "out_count"));
    *out_count = static_cast<std::uint32_t>(object.kernels().size());
    return {};
  });
}

jal_status_t jal_module_kernel_at(jal_module_t module, uint32_t index, jal_kernel_t* out_kernel) noexcept {
  return with(module, [&](Module& object) -> Status {
    JAL_RETURN_IF_ERROR(check_pointer(out_kernel, "out_kernel"));
    if (index >= object.kernels().size()) {
      return fail(JAL_ERROR_INVALID_ARGUMENT, "kernel {}: the module has {}", index, object.kernels().size());
    }
    return hand_out_kernel(object.kernels()[index], out_kernel);
  });
}

jal_status_t jal_module_kernel(jal_module_t module, const char* name, jal_kernel_t* out_kernel) noexcept {
  return with(module, [&](Module& object) -> Status {
    JAL_RETURN_IF_ERROR(check_pointer(name, "name"));
    JAL_RETURN_IF_ERROR(check_pointer(out_kernel, "out_kernel"));
    auto kernel = object.find(name);
    if (!kernel.ok()) return kernel.status();
    return hand_out_kernel(**kernel, out_kernel);
  });
}

jal_status_t jal_kernel_get_info(jal_kernel_t kernel, jal_kernel_info* out_info) noexcept {
  return with(kernel, [&](Kernel& object) -> Status {
    JAL_RETURN_IF_ERROR(check_struct(out_info, "jal_kernel_info"));
    jal_kernel_info info{};
    info.struct_size = sizeof info;
    info.index = object.index;
    std::memcpy(info.name, object.entry.name, sizeof info.name);
    info.argument_bytes = object.entry.argument_bytes;
    info.argument_count = object.entry.argument_count;
    std::memcpy(info.arguments, object.entry.arguments, sizeof info.arguments);
    *out_info = info;
    return {};
  });
}

jal_status_t jal_launch(jal_stream_t stream, jal_kernel_t kernel, uint64_t core_mask, const jal_argument* arguments,
                        uint32_t argument_count, const jal_launch_options* options) noexcept {
  return with(stream, [&](jal::rt::Stream& object) -> Status {
    jal_status_t status = JAL_OK;
    const Kernel* const code = find(kernel, &status);
    if (code == nullptr) return status;
    jal::rt::LaunchOptions wanted;
    JAL_RETURN_IF_ERROR(read_options(options, &wanted));
    jal::rt::ArgumentView views[JAL_KERNEL_ARGUMENTS_MAX];
    if (argument_count <= JAL_KERNEL_ARGUMENTS_MAX && argument_count != 0) {
      JAL_RETURN_IF_ERROR(check_pointer(arguments, "arguments"));
      for (std::uint32_t i = 0; i < argument_count; ++i) views[i] = view_of(arguments[i]);
    }
    return jal::rt::launch(object, *code, core_mask, views, argument_count, wanted);
  });
}

jal_status_t jal_launch_packed(jal_stream_t stream, jal_kernel_t kernel, uint64_t core_mask, const void* block,
                               uint32_t bytes, const jal_launch_options* options) noexcept {
  return with(stream, [&](jal::rt::Stream& object) -> Status {
    jal_status_t status = JAL_OK;
    const Kernel* const code = find(kernel, &status);
    if (code == nullptr) return status;
    jal::rt::LaunchOptions wanted;
    JAL_RETURN_IF_ERROR(read_options(options, &wanted));
    return jal::rt::launch_packed(object, *code, core_mask, block, bytes, wanted);
  });
}
