// Runs of elements between host arrays and row-major tensors: same type, or among f32, bf16 and f16.
//
// What it is not: MX (weight_tile.hpp). Rounding is to nearest even; NaN stays NaN. Threads: any; no state.
#pragma once
#include <cstdint>

namespace jal::rt {

/// Whether runs of `from` can become runs of `to`.
bool is_convertible(std::uint32_t from, std::uint32_t to);

/// A strided run of one type becomes a dense run of another, or the other way round. Strides are in elements.
void convert_run(std::uint32_t from, const void* source, std::uint64_t source_stride, std::uint32_t to, void* out,
                 std::uint64_t out_stride, std::uint64_t count);

std::uint16_t f16_from_f32(float x);
float f32_from_f16(std::uint16_t x);

}  // namespace jal::rt
