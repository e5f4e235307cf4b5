// The vector engine over an Arch of sixteen lanes; the same source for every vector instruction set.
//
// What it is not: compiled by itself. Functions mirror scalar/kernels_scalar.cpp, whose bits they give.
#pragma once
#include "emulator/engines/kernels.hpp"
#include "jal/kernel/math.hpp"

namespace jal::emu {

/// exp_f32 on sixteen lanes (jal/kernel/math.hpp), step by step.
template <class A>
JAL_INLINE typename A::V exp_lanes(typename A::V x) {
  using V = typename A::V;
  const V magic = A::set1(kernel::kRoundMagic);
  const V shifted = A::fma(x, A::set1(kernel::kLog2E), magic);
  const V n = A::sub(shifted, magic);
  V r = A::fma(n, A::set1(-kernel::kLn2High), x);
  r = A::fma(n, A::set1(-kernel::kLn2Low), r);
  V p = A::set1(kernel::kExpP0);
  p = A::fma(p, r, A::set1(kernel::kExpP1));
  p = A::fma(p, r, A::set1(kernel::kExpP2));
  p = A::fma(p, r, A::set1(kernel::kExpP3));
  p = A::fma(p, r, A::set1(kernel::kExpP4));
  p = A::fma(p, r, A::set1(kernel::kExpP5));
  const V y = A::add(A::fma(p, A::mul(r, r), r), A::set1(1.0f));
  V result = A::add_exponent(y, shifted, magic);
  result = A::select_gt(x, A::set1(kernel::kExpUpper), A::set1(__builtin_inff()), result);
  result = A::select_gt(A::set1(kernel::kExpLower), x, A::zero(), result);
  return A::select_nan(x, result);
}

template <class A>
JAL_INLINE typename A::V silu_lanes(typename A::V x) {
  const auto y = A::div(x, A::add(A::set1(1.0f), exp_lanes<A>(A::negate(x))));
  return A::select_nan(y, y);
}

template <class A>
struct VectorKernels {
  using V = typename A::V;

  static void add(const float* a, const float* b, float* out, std::size_t n) {
    map(
        out, n, [](V x, V y) { return A::add(x, y); }, a, b);
  }
  static void sub(const float* a, const float* b, float* out, std::size_t n) {
    map(
        out, n, [](V x, V y) { return A::sub(x, y); }, a, b);
  }
  static void mul(const float* a, const float* b, float* out, std::size_t n) {
    map(
        out, n, [](V x, V y) { return A::mul(x, y); }, a, b);
  }
  static void fma(const float* a, const float* b, const float* c, float* out, std::size_t n) {
    map(
        out, n, [](V x, V y, V z) { return A::fma(x, y, z); }, a, b, c);
  }
  static void axpy(float alpha, const float* x, const float* y, float* out, std::size_t n) {
    const V factor = A::set1(alpha);
    map(
        out, n, [factor](V a, V b) { return A::fma(factor, a, b); }, x, y);
  }
  static void scale(float alpha, const float* x, float* out, std::size_t n) {
    const V factor = A::set1(alpha);
    map(
        out, n, [factor](V a) { return A::mul(factor, a); }, x);
  }
  static void div_scalar(const float* x, float divisor, float* out, std::size_t n) {
    const V d = A::set1(divisor);
    map(
        out, n, [d](V a) { return A::div(a, d); }, x);
  }
  static void exp(const float* x, float* out, std::size_t n) {
    map(
        out, n, [](V a) { return exp_lanes<A>(a); }, x);
  }
  static void exp_minus(const float* x, float b, float* out, std::size_t n) {
    const V s = A::set1(b);
    map(
        out, n, [s](V a) { return exp_lanes<A>(A::sub(a, s)); }, x);
  }
  static void silu(const float* x, float* out, std::size_t n) {
    map(
        out, n, [](V a) { return silu_lanes<A>(a); }, x);
  }
  static void swiglu(const float* gate, const float* up, float* out, std::size_t n) {
    map(
        out, n, [](V g, V u) { return A::mul(silu_lanes<A>(g), u); }, gate, up);
  }
  static void scale_mul(const float* x, float r, const float* w, float* out, std::size_t n) {
    const V factor = A::set1(r);
    map(
        out, n, [factor](V a, V b) { return A::mul(A::mul(a, factor), b); }, x, w);
  }

  static float sum(const float* x, std::size_t n) {
    return kernel::canonical(A::fold_sum(reduce(x, n, A::zero(), 0.0f, [](V a, V lane) { return A::add(lane, a); })));
  }
  static float sum_squares(const float* x, std::size_t n) {
    return kernel::canonical(
        A::fold_sum(reduce(x, n, A::zero(), 0.0f, [](V a, V lane) { return A::fma(a, a, lane); })));
  }
  static float max(const float* x, std::size_t n) {
    const float lowest = -__builtin_inff();
    return A::fold_max(reduce(x, n, A::set1(lowest), lowest, [](V a, V lane) { return A::max_gt(a, lane); }));
  }

  static void rope_pairs(const float* x, const float* c, const float* s, float* out, std::size_t pairs) {
    std::size_t i = 0;
    for (; i + kLanes <= pairs; i += kLanes) {
      V even, odd;
      A::deinterleave(x + 2 * i, even, odd);
      rotate(even, odd, A::load(c + i), A::load(s + i));
      A::interleave(out + 2 * i, even, odd);
    }
    if (i < pairs) {
      const std::size_t rest = pairs - i;
      alignas(64) float buffer[2 * kLanes] = {};
      std::memcpy(buffer, x + 2 * i, rest * 2 * sizeof(float));
      V even, odd;
      A::deinterleave(buffer, even, odd);
      rotate(even, odd, A::load_n(c + i, rest), A::load_n(s + i, rest));
      A::interleave(buffer, even, odd);
      std::memcpy(out + 2 * i, buffer, rest * 2 * sizeof(float));
    }
  }
  static void rope_halves(const float* x, const float* c, const float* s, float* out, std::size_t pairs) {
    for (std::size_t i = 0; i < pairs; i += kLanes) {
      const std::size_t rest = pairs - i < kLanes ? pairs - i : kLanes;
      V a = A::load_n(x + i, rest);
      V b = A::load_n(x + pairs + i, rest);
      rotate(a, b, A::load_n(c + i, rest), A::load_n(s + i, rest));
      A::store_n(out + i, a, rest);
      A::store_n(out + pairs + i, b, rest);
    }
  }
  static void bf16_from_f32(const float* x, std::uint16_t* out, std::size_t n) {
    std::size_t i = 0;
    for (; i + kLanes <= n; i += kLanes) A::store_bf16(out + i, A::load(x + i));
    for (; i < n; ++i) out[i] = kernel::bf16_from_f32(x[i]);
  }
  static void f32_from_bf16(const std::uint16_t* x, float* out, std::size_t n) {
    std::size_t i = 0;
    for (; i + kLanes <= n; i += kLanes) A::store(out + i, A::load_bf16(x + i));
    for (; i < n; ++i) out[i] = kernel::f32_from_bf16(x[i]);
  }

 private:
  template <class F, class... P>
  JAL_INLINE static void map(float* out, std::size_t n, F f, const P*... in) {
    std::size_t i = 0;
    for (; i + kLanes <= n; i += kLanes) {
      const V v = f(A::load(in + i)...);
      A::store(out + i, A::select_nan(v, v));
    }
    if (i < n) {
      const V v = f(A::load_n(in + i, n - i)...);
      A::store_n(out + i, A::select_nan(v, v), n - i);
    }
  }
  /// Lanes beyond the end keep their value: the last vector is filled with what changes nothing.
  template <class F>
  JAL_INLINE static V reduce(const float* x, std::size_t n, V lane, float neutral, F f) {
    std::size_t i = 0;
    for (; i + kLanes <= n; i += kLanes) lane = f(A::load(x + i), lane);
    if (i < n) {
      const std::uint32_t rest = static_cast<std::uint32_t>(n - i);
      lane = f(A::keep_below(A::load_n(x + i, rest), rest, A::set1(neutral)), lane);
    }
    return lane;
  }
  JAL_INLINE static void rotate(V& a, V& b, V c, V s) {
    const V y0 = A::fma(a, c, A::negate(A::mul(b, s)));
    const V y1 = A::fma(b, c, A::mul(a, s));
    a = A::select_nan(y0, y0);
    b = A::select_nan(y1, y1);
  }
};

}  // namespace jal::emu
