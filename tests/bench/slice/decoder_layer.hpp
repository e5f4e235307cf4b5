// GPT-OSS-120B's decoder layers on one chip of eight, launched through libjal: how long the chip's model says they
// take.
//
// What it is not: a whole model. The sum over the chips between the kernels is not computed (one chip's part stands for
// it); its time is the model file's latency.fabric_allreduce. Weights are random. Invariant: the time does not depend
// on the host. Used from one thread.
#pragma once

#include <cstdint>
#include <jal/jal.hpp>
#include <string>
#include <vector>

#include "tests/bench/slice/kernels/decoder_layer.h"

namespace jal::bench {

/// Picoseconds per layer on the device; whole = the sum of the parts.
struct LayerTime {
  double launch = 0;      ///< two packets, dispatches and completions
  double hbm = 0;         ///< loads and stores that nothing hid
  double engine = 0;      ///< matrix and vector engines, with the issue of verbs
  double collective = 0;  ///< inside the chip
  double fabric = 0;      ///< between the chips: two all-reduces
  double whole = 0;
};

class DecoderLayers {
 public:
  /// Places the weights of two layers, one with full attention over 64 x 128 tokens and one with a window of 128.
  /// `kernels`: path of decoder_layer.jko. `fabric_ps`: of one all-reduce. Throws jal::Error.
  DecoderLayers(const jal::Device& device, const std::string& kernels, std::uint64_t fabric_ps);
  /// Runs `layers` layers, full and window by turns, and then two more with a profile. An even number.
  LayerTime run(std::uint32_t layers);
  /// Runs a half of one layer and waits. Layer 0 has full attention, 1 a window.
  void run_attention(std::uint32_t layer);
  void run_experts(std::uint32_t layer);
  /// Where a layer's parts lie.
  const jal_decoder_layer& layer(std::uint32_t layer) const { return layer_[layer]; }
  /// The residual stream with its last sum, as the host would read it: all slices' parts in order.
  std::vector<float> stream_values() const;

 private:
  void place(const jal::Device& device, jal_decoder_layer* layer, std::uint64_t seed);
  void launch(std::uint32_t layer, bool is_profiled);

  const jal::Device& device_;
  std::uint64_t fabric_ps_;
  jal::Module module_;
  jal::Kernel attention_, experts_;
  jal::Stream stream_;
  jal::Event begin_, end_;
  jal::Memory state_;
  std::vector<jal::Memory> weights_;
  jal_decoder_layer layer_[2] = {};
};

}  // namespace jal::bench
