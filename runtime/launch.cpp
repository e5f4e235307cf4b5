// Contract: launch.hpp.
#include "runtime/launch.hpp"

#include <cstring>

#include "driver/base/error_frames.hpp"

namespace jal::rt {

using drv::fail;

namespace {

Status check_target(Stream& stream, const Kernel& kernel, std::uint64_t core_mask) {
  Device& device = stream.device();
  if (core_mask == 0 || (core_mask & ~device.core_mask()) != 0) {
    return fail(JAL_ERROR_BAD_CORE_MASK,
                "launching {}: core mask {:#x}: device {} has cores 0..{}, at least one must be named",
                kernel.entry.name, core_mask, device.index(), device.chip().cores - 1);
  }
  if (&kernel.module->device() != &device) {
    return fail(JAL_ERROR_INVALID_ARGUMENT,
                "launching {}: the kernel was loaded on device {}, the stream is of device {}", kernel.entry.name,
                kernel.module->device().index(), device.index());
  }
  return {};
}

jal_packet dispatch_packet(const Kernel& kernel, std::uint64_t core_mask, std::uint64_t arguments_word,
                           const LaunchOptions& options) {
  const jal_dispatch_payload payload{kernel.module->id() << 16 | kernel.index, core_mask, arguments_word, options.tag,
                                     0};
  jal_packet packet{};
  jal_dispatch_payload_encode(&payload, &packet);
  return packet;
}

std::uint32_t header(const LaunchOptions& options) {
  return JAL_PACKET_DISPATCH | (options.may_overlap ? JAL_PACKET_FLAG_OVERLAP << 8 : 0u);
}

Status wrong_argument(const Kernel& kernel, std::uint32_t i, const ArgumentView& got) {
  const jal_kernel_argument& want = kernel.entry.arguments[i];
  return fail(JAL_ERROR_BAD_ARGUMENTS,
              "launching {}: argument {} is a {} of {} bytes, the kernel takes a {} of {} bytes", kernel.entry.name, i,
              argument_type_name(got.type), got.bytes, argument_type_name(want.type), want.bytes);
}

}  // namespace

const char* argument_type_name(std::uint32_t type) {
  constexpr const char* kNames[] = {"?", "u32", "i32", "f32", "u64", "i64", "f64", "tensor", "address", "struct"};
  return type < std::size(kNames) ? kNames[type] : "?";
}

Status launch(Stream& stream, const Kernel& kernel, std::uint64_t core_mask, const ArgumentView* arguments,
              std::uint32_t argument_count, const LaunchOptions& options) {
  JAL_RETURN_IF_ERROR(check_target(stream, kernel, core_mask));
  const jal_kernel_entry& entry = kernel.entry;
  if (argument_count != entry.argument_count) {
    return fail(JAL_ERROR_BAD_ARGUMENTS, "launching {}: {} arguments, the kernel takes {}", entry.name, argument_count,
                entry.argument_count);
  }
  for (std::uint32_t i = 0; i < argument_count; ++i) {
    const ArgumentView& argument = arguments[i];
    if (argument.type != entry.arguments[i].type || argument.bytes != entry.arguments[i].bytes)
      return wrong_argument(kernel, i, argument);
    if (argument.data == nullptr) {
      return fail(JAL_ERROR_BAD_ARGUMENTS, "launching {}: argument {} ({}) points to nothing", entry.name, i,
                  argument_type_name(argument.type));
    }
    if (argument.type == JAL_ARGUMENT_TENSOR) {
      std::uint32_t struct_size = 0;
      std::memcpy(&struct_size, argument.data, sizeof struct_size);
      if (struct_size != sizeof(jal_tensor_info)) {
        return fail(
            JAL_ERROR_BAD_TENSOR,
            "launching {}: argument {}: struct_size of the tensor is {}, not {}; build it with jal_tensor_info_init",
            entry.name, i, struct_size, sizeof(jal_tensor_info));
      }
    }
  }
  drv::Queue& queue = stream.queue();
  if (entry.argument_bytes == 0) return queue.push(header(options), dispatch_packet(kernel, core_mask, 0, options));
  void* block = nullptr;
  std::uint64_t word = 0;
  if (const jal_status_t code = queue.reserve(entry.argument_bytes, &block, &word); code != JAL_OK) return code;
  auto* out = static_cast<unsigned char*>(block);
  std::uint32_t written = 0;
  for (std::uint32_t i = 0; i < argument_count; ++i) {
    const jal_kernel_argument& place = entry.arguments[i];
    if (place.offset > written) std::memset(out + written, 0, place.offset - written);
    std::memcpy(out + place.offset, arguments[i].data, place.bytes);
    written = place.offset + place.bytes;
  }
  if (entry.argument_bytes > written) std::memset(out + written, 0, entry.argument_bytes - written);
  queue.push_reserved(header(options), dispatch_packet(kernel, core_mask, word, options));
  return {};
}

Status launch_packed(Stream& stream, const Kernel& kernel, std::uint64_t core_mask, const void* block,
                     std::uint32_t bytes, const LaunchOptions& options) {
  JAL_RETURN_IF_ERROR(check_target(stream, kernel, core_mask));
  if (bytes != kernel.entry.argument_bytes) {
    return fail(JAL_ERROR_BAD_ARGUMENTS, "launching {}: an argument block of {} bytes, the kernel takes {}",
                kernel.entry.name, bytes, kernel.entry.argument_bytes);
  }
  drv::Queue& queue = stream.queue();
  if (bytes == 0) return queue.push(header(options), dispatch_packet(kernel, core_mask, 0, options));
  if (block == nullptr)
    return fail(JAL_ERROR_INVALID_ARGUMENT, "launching {}: the argument block is NULL", kernel.entry.name);
  void* out = nullptr;
  std::uint64_t word = 0;
  if (const jal_status_t code = queue.reserve(bytes, &out, &word); code != JAL_OK) return code;
  std::memcpy(out, block, bytes);
  queue.push_reserved(header(options), dispatch_packet(kernel, core_mask, word, options));
  return {};
}

}  // namespace jal::rt
