// A decoder layer in double precision, from the weights as they lie in a chip's memory: what the kernels of
// tests/bench/slice must compute, so that the time they are held to is that of real work.
//
// What it is not: bit-exact. It rounds nothing but the new token's key and value, which the cache holds in BF16.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstring>
#include <jal/jal.hpp>
#include <numeric>
#include <vector>

#include "runtime/tensor/weight_tile.hpp"
#include "tests/bench/slice/kernels/decoder_layer.h"

namespace jal::emu {

class ReferenceLayer {
 public:
  using Vector = std::vector<double>;

  ReferenceLayer(const Device& device, const jal_decoder_layer& layer)
      : device_(device), a_(layer), cores_(device.info().cores), mine_(layer.hidden / cores_) {}

  /// What the halves of the layer add to the stream.
  Vector attention(const std::vector<float>& stream) const {
    return attend(normalised({stream.begin(), stream.end()}, a_.norm_offset));
  }
  Vector experts(const std::vector<float>& stream) const {
    return mix_experts(normalised({stream.begin(), stream.end()}, a_.ffn_norm_offset));
  }

 private:
  template <typename T>
  std::vector<T> read(std::uint32_t core, std::uint64_t offset, std::size_t count) const {
    std::vector<T> values(count);
    device_.copy_to_host(values.data(), JAL_ADDRESS_HBM(core, offset), count * sizeof(T));
    return values;
  }
  static double bf16(std::uint16_t bits) {
    const std::uint32_t wide = static_cast<std::uint32_t>(bits) << 16;
    float value = 0;
    std::memcpy(&value, &wide, 4);
    return value;
  }
  static double rounded_to_bf16(double value) {
    int exponent = 0;
    const double mantissa = std::frexp(value, &exponent);
    return std::ldexp(std::nearbyint(std::ldexp(mantissa, 8)), exponent - 8);
  }
  static double dot(const double* a, const double* b, std::uint32_t count) {
    return std::inner_product(a, a + count, b, 0.0);
  }
  /// rows by x.size() of one core's tile, times x.
  Vector multiply(std::uint32_t core, std::uint64_t offset, std::uint32_t dtype, std::uint32_t rows,
                  const Vector& x) const {
    const auto k = static_cast<std::uint32_t>(x.size());
    const rt::WeightTile tile(dtype, rows, k);
    const std::vector<std::uint8_t> bytes = read<std::uint8_t>(core, offset, tile.bytes);
    std::vector<float> row(k);
    Vector y(rows);
    for (std::uint32_t r = 0; r < rows; ++r) {
      rt::unpack_row_f32(tile, r, bytes.data(), k, row.data());
      for (std::uint32_t i = 0; i < k; ++i) y[r] += static_cast<double>(row[i]) * x[i];
    }
    return y;
  }
  /// The same with the rows dealt over all cores.
  Vector multiply_dealt(std::uint64_t offset, std::uint32_t dtype, std::uint32_t rows_each, const Vector& x) const {
    Vector y;
    for (std::uint32_t core = 0; core < cores_; ++core) {
      const Vector part = multiply(core, offset, dtype, rows_each, x);
      y.insert(y.end(), part.begin(), part.end());
    }
    return y;
  }
  Vector normalised(const Vector& x, std::uint64_t offset) const {
    const double factor = 1 / std::sqrt(dot(x.data(), x.data(), a_.hidden) / a_.hidden + a_.norm_epsilon);
    const std::vector<float> weight = read<float>(0, offset, a_.hidden);
    Vector y(x);
    for (std::uint32_t i = 0; i < a_.hidden; ++i) y[i] *= factor * weight[i];
    return y;
  }
  void rotate(double* row) const {
    const std::uint32_t half = a_.head_dim / 2;
    for (std::uint32_t i = 0; i < half; ++i) {
      const double angle = a_.position * std::pow(static_cast<double>(a_.rope_base), -2.0 * i / a_.head_dim);
      const double left = row[i], right = row[i + half];
      row[i] = left * std::cos(angle) - right * std::sin(angle);
      row[i + half] = right * std::cos(angle) + left * std::sin(angle);
    }
  }
  Vector attend(const Vector& x) const {
    const std::uint32_t d = a_.head_dim;
    Vector qkv = multiply_dealt(a_.qkv_offset, JAL_DTYPE_BF16, (a_.heads + 2) * d / cores_, x);
    for (std::uint32_t head = 0; head <= a_.heads; ++head) rotate(&qkv[head * d]);  // the last one is the key
    Vector keys, values;
    for (std::uint32_t core = 0; core < cores_; ++core) {
      for (const std::uint16_t bits : read<std::uint16_t>(core, a_.keys_offset, a_.kv_tokens * d))
        keys.push_back(bf16(bits));
      for (const std::uint16_t bits : read<std::uint16_t>(core, a_.values_offset, a_.kv_tokens * d))
        values.push_back(bf16(bits));
    }
    for (std::uint32_t i = 0; i < d; ++i) {
      keys.push_back(rounded_to_bf16(qkv[a_.heads * d + i]));
      values.push_back(rounded_to_bf16(qkv[(a_.heads + 1) * d + i]));
    }
    const auto tokens = static_cast<std::uint32_t>(keys.size() / d);
    const std::vector<float> sinks = read<float>(0, a_.sinks_offset, a_.heads);
    Vector mixed(a_.heads * d);
    for (std::uint32_t head = 0; head < a_.heads; ++head) {
      double sum = std::exp(static_cast<double>(sinks[head]));
      for (std::uint32_t t = 0; t < tokens; ++t) {
        const double weight = std::exp(dot(&qkv[head * d], &keys[t * d], d) / std::sqrt(static_cast<double>(d)));
        sum += weight;
        for (std::uint32_t i = 0; i < d; ++i) mixed[head * d + i] += weight * values[t * d + i];
      }
      for (std::uint32_t i = 0; i < d; ++i) mixed[head * d + i] /= sum;
    }
    return multiply_dealt(a_.o_offset, JAL_DTYPE_BF16, mine_, mixed);
  }
  Vector mix_experts(const Vector& x) const {
    const Vector logits = multiply_dealt(a_.router_offset, JAL_DTYPE_BF16, a_.experts / cores_, x);
    std::vector<std::uint32_t> order(a_.experts);
    std::iota(order.begin(), order.end(), 0u);
    std::sort(order.begin(), order.end(), [&](std::uint32_t i, std::uint32_t j) { return logits[i] > logits[j]; });
    double sum = 0;
    for (std::uint32_t j = 0; j < a_.active; ++j) sum += std::exp(logits[order[j]]);
    const std::uint64_t gate_up_bytes = rt::WeightTile(JAL_DTYPE_MXFP4, 2 * a_.expert_rows, a_.hidden).bytes;
    const std::uint64_t down_bytes = rt::WeightTile(JAL_DTYPE_MXFP4, mine_, a_.intermediate).bytes;
    Vector y(a_.hidden);
    for (std::uint32_t j = 0; j < a_.active; ++j) {
      const std::uint64_t at = a_.experts_offset + order[j] % a_.stored * (gate_up_bytes + down_bytes);
      Vector inner;
      for (std::uint32_t core = 0; core < cores_; ++core) {
        const Vector both = multiply(core, at, JAL_DTYPE_MXFP4, 2 * a_.expert_rows, x);
        for (std::uint32_t r = 0; r < a_.expert_rows && inner.size() < a_.intermediate; ++r)
          inner.push_back(both[r] / (1 + std::exp(-both[r])) * both[a_.expert_rows + r]);
      }
      const Vector part = multiply_dealt(at + gate_up_bytes, JAL_DTYPE_MXFP4, mine_, inner);
      for (std::uint32_t i = 0; i < a_.hidden; ++i) y[i] += std::exp(logits[order[j]]) / sum * part[i];
    }
    return y;
  }

  const Device& device_;
  jal_decoder_layer a_;
  std::uint32_t cores_, mine_;
};

}  // namespace jal::emu
