// The vector engine: a fixed list of functions on FP32 arrays, each a declared list of roundings.
//
// What it is not: an expression evaluator. A function that is not here is a sequence of those that are.
// Invariant: same bits on every instruction set and on rv64 (firmware/kernel/include/jal/kernel/math.hpp); denormals
// are kept; every NaN written is 0x7fc00000. Elementwise outputs may be one of the inputs (same address); reductions
// use 16 lanes (element i belongs to lane i mod 16) and the fold l+8, l+4, l+2, l+1.
// Contract: docs/engine_numerics.md, "Vector engine". n is in elements and may be 0. Any thread.
#pragma once
#include <cstddef>
#include <cstdint>

namespace jal::emu {

void vec_copy(const float* x, float* out, std::size_t n);                                 ///< bits as they are
void vec_fill(float value, float* out, std::size_t n);                                    ///< bits as they are
void vec_add(const float* a, const float* b, float* out, std::size_t n);                  ///< a + b
void vec_sub(const float* a, const float* b, float* out, std::size_t n);                  ///< a - b
void vec_mul(const float* a, const float* b, float* out, std::size_t n);                  ///< a * b
void vec_fma(const float* a, const float* b, const float* c, float* out, std::size_t n);  ///< fma(a, b, c)
void vec_axpy(float alpha, const float* x, const float* y, float* out, std::size_t n);    ///< fma(alpha, x, y)
void vec_scale(float alpha, const float* x, float* out, std::size_t n);                   ///< alpha * x
void vec_exp(const float* x, float* out, std::size_t n);                                  ///< exp_f32
void vec_silu(const float* x, float* out, std::size_t n);                                 ///< x / (1 + exp(-x))
/// SwiGLU: silu(gate) * up.
void vec_swiglu(const float* gate, const float* up, float* out, std::size_t n);

float vec_sum(const float* x, std::size_t n);          ///< lane += x; fold
float vec_sum_squares(const float* x, std::size_t n);  ///< lane = fma(x, x, lane); fold
float vec_max(const float* x, std::size_t n);          ///< lane = x > lane ? x : lane from -inf; NaN is never chosen

/// out = (x * r) * weight, r = 1 / sqrt(sum_squares(x) / n + epsilon), each operation rounded once. weight may be
/// null (all ones, no second product).
void vec_rmsnorm(const float* x, const float* weight, float epsilon, float* out, std::size_t n);

/// out = exp(x - max) / sum: the softmax of one row. out may be x. n = 0 does nothing.
void vec_softmax(const float* x, float* out, std::size_t n);

/// Rotates pairs (x[2i], x[2i+1]) by the angle whose cosine and sine are given, i < pairs:
/// y0 = fma(x0, cos, -(x1 * sin)), y1 = fma(x1, cos, x0 * sin). out may be x.
void vec_rope_pairs(const float* x, const float* cosine, const float* sine, float* out, std::size_t pairs);

/// The same rotation for pairs (x[i], x[i + pairs]): the "rotate half" convention.
void vec_rope_halves(const float* x, const float* cosine, const float* sine, float* out, std::size_t pairs);

/// cos and sin of position * base^(-2i / head_dim), i < head_dim / 2, computed in double and rounded once.
void rope_table(std::uint32_t position, double base, std::uint32_t head_dim, float* out_cosine, float* out_sine);

void vec_bf16_from_f32(const float* x, std::uint16_t* out, std::size_t n);  ///< round to nearest even
void vec_f32_from_bf16(const std::uint16_t* x, float* out, std::size_t n);  ///< exact

/// Index of the largest value, the lowest such index; NaN is never chosen unless all are (then 0). n >= 1.
std::uint32_t vec_argmax(const float* x, std::size_t n);

/// The k largest values in order (value descending, then index ascending; NaN last): k <= n indices and values.
void vec_top_k(const float* x, std::size_t n, std::uint32_t k, std::uint32_t* out_index, float* out_value);

}  // namespace jal::emu
