// JAL_KERNEL: makes a function a kernel, with its signature in the module.
//
//   JAL_KERNEL(scale, Core& core, Tensor x, float factor) { ... }
//
// emits the symbol `jal_kernel_scale` (void(struct jal_core*)), which takes the arguments out of the argument block,
// and a jal_kernel_entry in the ELF section "jal_kernels" that tells jalcc and the host their types. Parameters behind
// Core& are 32- and 64-bit integers, float, double, Tensor, Address, and trivially copyable structs by value. Not for:
// templates, or two kernels of one name in a module (jalcc refuses them).
#pragma once
#include <jal/abi/module.h>
#include <jal/abi/tensor.h>
#include <jal/kernel/core_abi.h>
#include <stdint.h>

namespace jal::kernel {

class Core;
class Tensor;

/// A device address that the host passed. Checked at use, not at dispatch.
struct Address {
  uint64_t value;
};

namespace detail {

template <typename T>
struct Argument {  // a struct by value
  static_assert(__is_trivially_copyable(T) && __is_class(T),
                "a kernel argument is a number, a Tensor, an Address or a plain struct");
  static constexpr uint16_t type = JAL_ARGUMENT_BYTES;
  using Wire = T;
};
#define JAL_KERNEL_SCALAR(cpp, abi)       \
  template <>                             \
  struct Argument<cpp> {                  \
    static constexpr uint16_t type = abi; \
    using Wire = cpp;                     \
  };
JAL_KERNEL_SCALAR(uint32_t, JAL_ARGUMENT_U32)
JAL_KERNEL_SCALAR(int32_t, JAL_ARGUMENT_I32)
JAL_KERNEL_SCALAR(float, JAL_ARGUMENT_F32)
JAL_KERNEL_SCALAR(uint64_t, JAL_ARGUMENT_U64)
JAL_KERNEL_SCALAR(int64_t, JAL_ARGUMENT_I64)
JAL_KERNEL_SCALAR(double, JAL_ARGUMENT_F64)
JAL_KERNEL_SCALAR(Address, JAL_ARGUMENT_ADDRESS)
#undef JAL_KERNEL_SCALAR
template <>
struct Argument<Tensor> {
  static constexpr uint16_t type = JAL_ARGUMENT_TENSOR;
  using Wire = jal_tensor_info;
};

template <typename... A>
struct Layout {
  static constexpr uint32_t count = sizeof...(A);
  uint32_t offset[count + 1] = {};
  uint32_t bytes = 0;
  constexpr Layout() {
    constexpr uint32_t size[] = {sizeof(typename Argument<A>::Wire)..., 0};
    constexpr uint32_t align[] = {alignof(typename Argument<A>::Wire)..., 1};
    for (uint32_t i = 0; i < count; ++i) {
      bytes = (bytes + align[i] - 1) / align[i] * align[i];
      offset[i] = bytes;
      bytes += size[i];
    }
    bytes = (bytes + 7) / 8 * 8;
  }
};

template <typename T>
struct Signature;
template <typename... A>
struct Signature<void(Core&, A...)> {
  static_assert(sizeof...(A) <= JAL_KERNEL_ARGUMENTS_MAX, "a kernel has at most 24 arguments");

  static constexpr jal_kernel_entry entry(const char* name, const char* symbol) {
    constexpr Layout<A...> layout;
    jal_kernel_entry e = {};
    for (uint32_t i = 0; i + 1 < JAL_KERNEL_NAME_BYTES && name[i] != '\0'; ++i) e.name[i] = name[i];
    for (uint32_t i = 0; i + 1 < JAL_KERNEL_NAME_BYTES && symbol[i] != '\0'; ++i) e.symbol[i] = symbol[i];
    e.argument_bytes = layout.bytes;
    e.argument_count = sizeof...(A);
    constexpr uint16_t type[] = {Argument<A>::type..., 0};
    constexpr uint32_t size[] = {sizeof(typename Argument<A>::Wire)..., 0};
    for (uint32_t i = 0; i < sizeof...(A); ++i)
      e.arguments[i] = {type[i], static_cast<uint16_t>(layout.offset[i]), size[i]};
    return e;
  }

  template <typename Body>
  static void call(Body body, jal_core* raw) {
    call(body, raw, indices(sizeof...(A)));
  }

 private:
  template <uint32_t... I>
  struct Index {};
  template <uint32_t N, uint32_t... I>
  struct Make : Make<N - 1, N - 1, I...> {};
  template <uint32_t... I>
  struct Make<0, I...> {
    using type = Index<I...>;
  };
  static constexpr typename Make<sizeof...(A)>::type indices(uint32_t) { return {}; }

  template <typename Body, uint32_t... I>
  static void call(Body body, jal_core* raw, Index<I...>) {
    [[maybe_unused]] static constexpr Layout<A...> layout;
    [[maybe_unused]] const auto* block = static_cast<const unsigned char*>(raw->arguments);
    Core& core = *reinterpret_cast<Core*>(raw);
    body(core, A(*reinterpret_cast<const typename Argument<A>::Wire*>(block + layout.offset[I]))...);
  }
};

}  // namespace detail
}  // namespace jal::kernel

#define JAL_KERNEL(name, ...)                                                                                    \
  static void name##_body(__VA_ARGS__);                                                                          \
  extern "C" __attribute__((visibility("default"), used)) void jal_kernel_##name(struct jal_core* core) {        \
    ::jal::kernel::detail::Signature<decltype(name##_body)>::call(&name##_body, core);                           \
  }                                                                                                              \
  extern "C" {                                                                                                   \
  extern const jal_kernel_entry jal_kernel_entry_##name;                                                         \
  __attribute__((section("jal_kernels"), used, aligned(8))) constexpr jal_kernel_entry jal_kernel_entry_##name = \
      ::jal::kernel::detail::Signature<decltype(name##_body)>::entry(#name, "jal_kernel_" #name);                \
  }                                                                                                              \
  static void name##_body(__VA_ARGS__)
