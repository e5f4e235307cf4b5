// A chip of a chosen model with the shipped kernels loaded, for conformance tests through libjal.
#pragma once
#include <gtest/gtest.h>
#include <jal/ops/llama.h>

#include <bit>
#include <cstdlib>
#include <jal/jal.hpp>
#include <jal/kernel/math.hpp>
#include <random>
#include <vector>

namespace jal::test {

/// The last has 4 cores of 256 KiB L1: what fits the others' whole goes through it in pieces.
inline const char* const kChips[] = {"jal1-48", "jal1-a0", "jal-test4"};

/// One chip for the time of a test, with buffers on slice 0.
class Chip {
 public:
  explicit Chip(const char* model) : library_((setenv("JAL_MODEL", model, 1), Library())), device(0) {
    module_ = device.load(JAL_OPS_FILE);
    stream_ = device.stream();
    mask = device.info().core_mask;
    cores = device.info().cores;
  }
  Memory buffer(std::size_t bytes) { return device.alloc_on_slice(0, std::max<std::size_t>(bytes, 64)); }
  Memory buffer(const std::vector<float>& values) {
    Memory memory = buffer(values.size() * 4);
    if (!values.empty()) device.copy_to_device(memory.address(), values.data(), values.size() * 4);
    return memory;
  }
  static std::uint32_t offset(const Memory& memory) { return static_cast<std::uint32_t>(memory.info().offset); }

  /// Runs a part on x; returns y of `count` floats.
  std::vector<float> run(const char* kernel, jal_llama_step step, jal_llama_part part, const std::vector<float>& x,
                         std::size_t count) {
    const Memory in = buffer(x);
    const Memory out = buffer(count * 4);
    part.x_offset = offset(in);
    part.y_offset = offset(out);
    stream_.launch(module_.kernel(kernel), mask, step, part);
    std::vector<float> y(count);
    if (count > 0) stream_.copy_to_host(y.data(), out.address(), count * 4);
    stream_.synchronize();
    return y;
  }
  /// Shape words of attention over `tokens` tokens, and its KV cache: step.kv_* are set.
  Memory place_attention(jal_llama_step& step, std::uint32_t heads, std::uint32_t kv_heads, std::uint32_t head_dim,
                         std::uint32_t tokens) {
    step.heads = heads;
    step.kv_heads = kv_heads;
    step.head_dim = head_dim;
    step.rope_base = 10000;
    step.kv_slots = jal_llama_kv_slots(tokens, kv_heads, cores);
    Memory kv = device.alloc(device.info().slice_mask, step.kv_slots * jal_llama_unit_bytes(head_dim));
    step.kv_offset = offset(kv);
    return kv;
  }
  /// After a failure: the stream serves again.
  void recover() { (void)stream_.recover(); }
  /// A matrix dealt over the slices as engine tiles. MX: codes and scales as given.
  Tensor deal(std::uint32_t dtype, std::uint32_t rows, std::uint32_t k, const void* codes,
              const void* scales = nullptr) {
    TensorInfo info(dtype, {rows, k});
    info.shard(0, device.info().slice_mask).engine_tiling();
    Tensor tensor(device, info);
    tensor.upload(dtype, codes, scales);
    return tensor;
  }

 private:
  Library library_;

 public:
  Device device;
  std::uint64_t mask = 0;
  std::uint32_t cores = 0;

 private:
  Module module_;
  Stream stream_;
};

inline std::vector<float> random_floats(std::size_t n, unsigned seed, float scale = 1) {
  std::mt19937 draw(seed);
  std::normal_distribution<float> normal(0, scale);
  std::vector<float> values(n);
  for (float& v : values) v = normal(draw);
  return values;
}

/// Runs `make` on every chip: equal bits everywhere; returns them.
template <typename Make>
std::vector<float> on_every_chip(Make make) {
  std::vector<float> first;
  for (const char* model : kChips) {
    Chip chip(model);
    std::vector<float> got = make(chip);
    if (model == kChips[0]) {
      first = got;
      continue;
    }
    EXPECT_EQ(got.size(), first.size());
    for (std::size_t i = 0; i < got.size() && i < first.size(); ++i) {
      if (std::bit_cast<std::uint32_t>(got[i]) == std::bit_cast<std::uint32_t>(first[i])) continue;
      ADD_FAILURE() << model << ": element " << i << " is " << got[i] << ", on " << kChips[0] << " " << first[i];
      break;
    }
  }
  return first;
}

inline jal_llama_step step_of(std::uint32_t tokens) {
  jal_llama_step step{};
  step.tokens = tokens;
  return step;
}

}  // namespace jal::test
