// FP32 operations of the matrix engine in integer and double arithmetic: denormals are zero on input and on output.
//
// What it is not: fast. It is the meaning of the matrix engine's roundings, free of any control register.
// Invariant: equal to an x86 FMA under MXCSR DAZ + FTZ, whose underflow is detected after rounding.
// Contract: docs/engine_numerics.md, "Flushing".
#pragma once
#include "jal/kernel/math.hpp"

namespace jal::emu::soft {

inline float flush_input(float x) {
  const std::uint32_t bits = kernel::bits_of(x);
  return (bits & 0x7f800000u) == 0 ? kernel::float_of(bits & 0x80000000u) : x;
}

/// Rounds a double that was rounded to odd to FP32, a tiny result to a zero of its sign. Tiny means below 2^-126 after
/// rounding to 24 bits with an unbounded exponent.
inline float round_flush(double odd) {
  const double magnitude = odd < 0 ? -odd : odd;
  if (magnitude < 0x1p-125) {
    const float widened = static_cast<float>(odd * 0x1p64);
    const float smallest = 0x1p-62f;
    if (widened < smallest && widened > -smallest) {
      return kernel::float_of(static_cast<std::uint32_t>(kernel::bits_of(odd) >> 63) << 31);
    }
    return widened * 0x1p-64f;
  }
  return static_cast<float>(odd);
}

inline float fma(float a, float b, float c) {
  return round_flush(kernel::fma_to_odd(flush_input(a), flush_input(b), flush_input(c)));
}
inline float add(float a, float b) { return round_flush(kernel::fma_to_odd(1.0f, flush_input(a), flush_input(b))); }
inline float sub(float a, float b) { return round_flush(kernel::fma_to_odd(-1.0f, flush_input(b), flush_input(a))); }
inline float mul(float a, float b) {
  // The product of two FP32 is exact in double, so no odd rounding is needed.
  return round_flush(static_cast<double>(flush_input(a)) * static_cast<double>(flush_input(b)));
}

}  // namespace jal::emu::soft
