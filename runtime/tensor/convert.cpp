// Contract: convert.hpp.
#include "runtime/tensor/convert.hpp"

#include <jal/abi/tensor.h>

#include <cstring>

#include "runtime/tensor/descriptor.hpp"
#include "runtime/tensor/weight_tile.hpp"

namespace jal::rt {
namespace {

bool is_float(std::uint32_t dtype) {
  return dtype == JAL_DTYPE_F32 || dtype == JAL_DTYPE_BF16 || dtype == JAL_DTYPE_F16;
}

template <std::uint32_t kDtype>
struct Format;
template <>
struct Format<JAL_DTYPE_F32> {
  using Bits = float;
  static float load(Bits x) { return x; }
  static Bits store(float x) { return x; }
};
template <>
struct Format<JAL_DTYPE_BF16> {
  using Bits = std::uint16_t;
  static float load(Bits x) { return f32_from_bf16(x); }
  static Bits store(float x) { return bf16_from_f32(x); }
};
template <>
struct Format<JAL_DTYPE_F16> {
  using Bits = std::uint16_t;
  static float load(Bits x) { return f32_from_f16(x); }
  static Bits store(float x) { return f16_from_f32(x); }
};

template <std::uint32_t kFrom, std::uint32_t kTo>
void convert(const void* source, std::uint64_t source_stride, void* out, std::uint64_t out_stride,
             std::uint64_t count) {
  const auto* from = static_cast<const typename Format<kFrom>::Bits*>(source);
  auto* to = static_cast<typename Format<kTo>::Bits*>(out);
  for (std::uint64_t i = 0; i < count; ++i) {
    to[i * out_stride] = Format<kTo>::store(Format<kFrom>::load(from[i * source_stride]));
  }
}

template <std::uint32_t kFrom>
void convert_from(const void* source, std::uint64_t source_stride, std::uint32_t to, void* out,
                  std::uint64_t out_stride, std::uint64_t count) {
  if (to == JAL_DTYPE_F32) convert<kFrom, JAL_DTYPE_F32>(source, source_stride, out, out_stride, count);
  if (to == JAL_DTYPE_BF16) convert<kFrom, JAL_DTYPE_BF16>(source, source_stride, out, out_stride, count);
  if (to == JAL_DTYPE_F16) convert<kFrom, JAL_DTYPE_F16>(source, source_stride, out, out_stride, count);
}

template <typename Element>
void copy_run(const void* source, std::uint64_t source_stride, void* out, std::uint64_t out_stride,
              std::uint64_t count) {
  const auto* from = static_cast<const Element*>(source);
  auto* to = static_cast<Element*>(out);
  for (std::uint64_t i = 0; i < count; ++i) to[i * out_stride] = from[i * source_stride];
}

}  // namespace

bool is_convertible(std::uint32_t from, std::uint32_t to) {
  return (from == to && dtype_bits(from) >= 8 && !is_mx(from)) || (is_float(from) && is_float(to));
}

void convert_run(std::uint32_t from, const void* source, std::uint64_t source_stride, std::uint32_t to, void* out,
                 std::uint64_t out_stride, std::uint64_t count) {
  if (from != to) {
    if (from == JAL_DTYPE_F32) convert_from<JAL_DTYPE_F32>(source, source_stride, to, out, out_stride, count);
    if (from == JAL_DTYPE_BF16) convert_from<JAL_DTYPE_BF16>(source, source_stride, to, out, out_stride, count);
    if (from == JAL_DTYPE_F16) convert_from<JAL_DTYPE_F16>(source, source_stride, to, out, out_stride, count);
    return;
  }
  const std::uint32_t bytes = dtype_bits(from) / 8;
  if (source_stride == 1 && out_stride == 1) {
    std::memcpy(out, source, count * bytes);
  } else if (bytes == 4) {
    copy_run<std::uint32_t>(source, source_stride, out, out_stride, count);
  } else if (bytes == 2) {
    copy_run<std::uint16_t>(source, source_stride, out, out_stride, count);
  } else {
    copy_run<std::uint8_t>(source, source_stride, out, out_stride, count);
  }
}

std::uint16_t f16_from_f32(float x) {
  const auto bits = __builtin_bit_cast(std::uint32_t, x);
  const auto sign = static_cast<std::uint16_t>(bits >> 16 & 0x8000u);
  const std::uint32_t magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return static_cast<std::uint16_t>(sign | 0x7e00u);
  if (magnitude >= 0x477ff000u) return static_cast<std::uint16_t>(sign | 0x7c00u);  // rounds to 2^16 or above
  if (magnitude < 0x38800000u) {
    // Denormal in F16: adding 0.5 (whose last place is 2^-24 in FP32) rounds to nearest even where F16 ends.
    const float shifted = __builtin_bit_cast(float, magnitude) + 0.5f;
    return static_cast<std::uint16_t>(sign | (__builtin_bit_cast(std::uint32_t, shifted) - 0x3f000000u));
  }
  const std::uint32_t rounded = magnitude + 0xfffu + (magnitude >> 13 & 1u) - 0x38000000u;
  return static_cast<std::uint16_t>(sign | rounded >> 13);
}

float f32_from_f16(std::uint16_t x) {
  const std::uint32_t sign = static_cast<std::uint32_t>(x & 0x8000u) << 16;
  const std::uint32_t magnitude = x & 0x7fffu;
  if (magnitude >= 0x7c00u) {
    const std::uint32_t bits =
        sign | 0x7f800000u | (magnitude & 0x3ffu) << 13 | ((magnitude & 0x3ffu) != 0 ? 0x400000u : 0u);
    return __builtin_bit_cast(float, bits);
  }
  if (magnitude < 0x400u) {
    const float value = static_cast<float>(magnitude) * 0x1p-24f;
    return __builtin_bit_cast(float, __builtin_bit_cast(std::uint32_t, value) | sign);
  }
  return __builtin_bit_cast(float, sign | ((magnitude << 13) + 0x38000000u));
}

}  // namespace jal::rt
