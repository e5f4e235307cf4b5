// A model's matrices in the chip's weight formats, on the host, in plain row order.
//
// What it is not: device memory. The upload reads these arrays and packs tiles from them.
// Invariant: linear layers have the format asked for; embedding and head are BF16 always (rounding them costs most
// quality). All matrices lie in one block of bytes, in the order and at the offsets that the model alone determines;
// cache.hpp stores that block.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "samples/01_llm/mapped_file.hpp"
#include "samples/01_llm/model_config.hpp"
#include "samples/01_llm/quantize.hpp"

namespace jal::llm {

/// rows x columns = outputs x inputs. Row r: codes [r * code_row_bytes(), ...), scales [r * scale_row_bytes(), ...).
struct WeightMatrix {
  const GgufTensor* source = nullptr;
  WeightFormat format = WeightFormat::bf16;
  std::uint32_t rows = 0;
  std::uint32_t columns = 0;
  std::span<const std::uint8_t> codes;
  std::span<const std::uint8_t> scales;  ///< empty for BF16

  std::size_t code_row_bytes() const { return llm::code_row_bytes(format, columns); }
  std::size_t scale_row_bytes() const { return llm::scale_row_bytes(format, columns); }
};

struct LayerWeights {
  std::span<const float> attn_norm;
  std::span<const float> ffn_norm;
  WeightMatrix attn_q, attn_k, attn_v, attn_output, ffn_gate, ffn_up, ffn_down;
};

/// Views into the block that a Weights owns, and (norms) into the model file.
struct WeightViews {
  WeightFormat format = WeightFormat::bf16;
  WeightMatrix token_embd;
  WeightMatrix output;  ///< the same codes as token_embd when the head is tied
  std::span<const float> output_norm;
  std::vector<LayerWeights> layers;
};

/// Where each matrix lies in the block: offsets are multiples of 64 bytes.
struct WeightLayout {
  struct Place {
    const GgufTensor* tensor;
    WeightFormat format;
    std::size_t codes_offset;
    std::size_t scales_offset;
  };
  std::vector<Place> places;
  std::size_t size_bytes = 0;
};
WeightLayout plan_weights(const ModelTensors& tensors, WeightFormat format);

class Weights {
 public:
  /// Decodes and quantises every matrix on up to `threads` threads (at least 1). Throws std::bad_alloc when memory is
  /// short.
  static Weights convert(const ModelTensors& tensors, WeightFormat format, unsigned threads);
  /// Takes a mapped file whose block starts at `block_offset` and is known to be the one that convert() would make.
  static Weights adopt(const ModelTensors& tensors, WeightFormat format, MappedFile file, std::size_t block_offset);

  const WeightViews& views() const { return views_; }
  std::span<const std::uint8_t> block() const { return block_; }

 private:
  Weights() = default;
  void bind(const ModelTensors& tensors, const WeightLayout& layout, WeightFormat format);

  struct Free {
    void operator()(std::uint8_t* p) const;
  };
  std::unique_ptr<std::uint8_t, Free> owned_;
  MappedFile mapped_;
  std::span<const std::uint8_t> block_;
  WeightViews views_;
};

}  // namespace jal::llm
