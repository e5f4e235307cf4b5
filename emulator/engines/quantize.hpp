// FP32 to MX blocks and back: E4M3 or E2M1 elements with one E8M0 scale per 32, scale mode RCEIL.
//
// What it is not: a packer of weight tiles (weights.hpp); codes here are in plain order.
// Invariant: no element clips: the scale is the smallest power of two with amax / scale <= the format's largest value.
// Contract: OCP Microscaling Formats v1.0; docs/engine_numerics.md, "Quantise".
#pragma once
#include <cstddef>
#include <cstdint>

namespace jal::emu {

/// Quantises k elements in blocks of 32 (the last one padded with zeros): block_count(k) * 32 codes, one byte each, and
/// block_count(k) scales. A block that is all zero gets scale byte 0 and zero codes. A block with a NaN
/// or an infinity gets scale 255 (NaN) and zero codes. Elements round to nearest even.
void quantize_mxfp8(const float* x, std::uint32_t k, std::uint8_t* codes, std::uint8_t* scales);

/// The same for E2M1; two codes a byte, low nibble first: block_count(k) * 16 bytes.
void quantize_mxfp4(const float* x, std::uint32_t k, std::uint8_t* codes, std::uint8_t* scales);

/// One element of E4M3 or E2M1 to FP32, exact (E4M3 0x7f and 0xff are NaN).
float f32_from_e4m3(std::uint8_t code);
float f32_from_e2m1(std::uint8_t code);

/// One FP32 to E4M3 or E2M1: round to nearest even, saturating at 448 and 6; NaN gives 0x7f, and 0 for E2M1.
std::uint8_t e4m3_from_f32(float x);
std::uint8_t e2m1_from_f32(float x);

/// 2^(scale - 127); 0 gives the FP32 denormal 2^-127, 255 gives NaN.
float f32_from_e8m0(std::uint8_t scale);

}  // namespace jal::emu
