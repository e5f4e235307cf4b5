// The plan, the conversion over threads, and the views.
#include "samples/01_llm/weights.hpp"

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <new>
#include <thread>

namespace jal::llm {
namespace {

constexpr std::size_t kAlignment = 64;
// Rows that a thread takes at once: a few hundred microseconds of work.
constexpr std::uint64_t kRowsAtOnce = 256;

std::size_t aligned(std::size_t size) { return (size + kAlignment - 1) / kAlignment * kAlignment; }

template <typename Visit>
void for_each_linear(const LayerTensors& layer, Visit visit) {
  for (const GgufTensor* tensor :
       {layer.attn_q, layer.attn_k, layer.attn_v, layer.attn_output, layer.ffn_gate, layer.ffn_up, layer.ffn_down}) {
    visit(tensor);
  }
}

/// Norms are F32 in the file (model_config.cpp checks) and aligned (gguf.cpp does), so they are read in place.
std::span<const float> norm_of(const GgufTensor& tensor) {
  return {reinterpret_cast<const float*>(tensor.bytes.data()), static_cast<std::size_t>(tensor.row_elements())};
}

}  // namespace

WeightLayout plan_weights(const ModelTensors& tensors, WeightFormat format) {
  WeightLayout layout;
  const auto add = [&](const GgufTensor* tensor, WeightFormat its_format) {
    const auto rows = static_cast<std::size_t>(tensor->rows());
    const auto columns = static_cast<std::size_t>(tensor->row_elements());
    const std::size_t codes = layout.size_bytes;
    const std::size_t scales = codes + aligned(rows * code_row_bytes(its_format, columns));
    layout.size_bytes = scales + aligned(rows * scale_row_bytes(its_format, columns));
    layout.places.push_back({tensor, its_format, codes, scales});
  };
  add(tensors.token_embd, WeightFormat::bf16);
  if (tensors.output != tensors.token_embd) add(tensors.output, WeightFormat::bf16);
  for (const LayerTensors& layer : tensors.layers) {
    for_each_linear(layer, [&](const GgufTensor* tensor) { add(tensor, format); });
  }
  return layout;
}

void Weights::Free::operator()(std::uint8_t* p) const { std::free(p); }

Weights Weights::convert(const ModelTensors& tensors, WeightFormat format, unsigned threads) {
  const WeightLayout layout = plan_weights(tensors, format);
  Weights weights;
  // 2 MiB: the kernel then backs the block with huge pages where it may, which saves most of the time of first touch.
  constexpr std::size_t kHugePage = std::size_t{2} << 20;
  const std::size_t size = (layout.size_bytes + kHugePage - 1) / kHugePage * kHugePage;
  weights.owned_.reset(static_cast<std::uint8_t*>(std::aligned_alloc(kHugePage, size)));
  if (weights.owned_ == nullptr) throw std::bad_alloc();
  std::uint8_t* block = weights.owned_.get();

  struct Work {
    const WeightLayout::Place* place;
    std::uint64_t first_row;
  };
  std::vector<Work> work;
  for (const WeightLayout::Place& place : layout.places) {
    for (std::uint64_t row = 0; row < place.tensor->rows(); row += kRowsAtOnce) work.push_back({&place, row});
  }
  std::atomic<std::size_t> next{0};
  const auto run = [&] {
    std::vector<float> row;
    for (std::size_t i = next.fetch_add(1, std::memory_order_relaxed); i < work.size();
         i = next.fetch_add(1, std::memory_order_relaxed)) {
      const WeightLayout::Place& place = *work[i].place;
      const auto columns = static_cast<std::size_t>(place.tensor->row_elements());
      const std::uint64_t end = std::min(place.tensor->rows(), work[i].first_row + kRowsAtOnce);
      row.resize(columns);
      for (std::uint64_t r = work[i].first_row; r < end; ++r) {
        dequantize_row(*place.tensor, r, row);
        quantize_row(place.format, row, block + place.codes_offset + r * code_row_bytes(place.format, columns),
                     block + place.scales_offset + r * scale_row_bytes(place.format, columns));
      }
    }
  };
  {
    std::vector<std::jthread> others;
    const std::size_t count = std::min<std::size_t>(std::max(threads, 1u), work.size());
    for (std::size_t t = 1; t < count; ++t) others.emplace_back(run);
    run();
  }
  weights.block_ = {block, layout.size_bytes};
  weights.bind(tensors, layout, format);
  return weights;
}

Weights Weights::adopt(const ModelTensors& tensors, WeightFormat format, MappedFile file, std::size_t block_offset) {
  const WeightLayout layout = plan_weights(tensors, format);
  Weights weights;
  weights.mapped_ = std::move(file);
  weights.block_ = weights.mapped_.bytes().subspan(block_offset, layout.size_bytes);
  weights.bind(tensors, layout, format);
  return weights;
}

void Weights::bind(const ModelTensors& tensors, const WeightLayout& layout, WeightFormat format) {
  std::size_t next = 0;
  const auto take = [&] {
    const WeightLayout::Place& place = layout.places[next++];
    WeightMatrix matrix;
    matrix.source = place.tensor;
    matrix.format = place.format;
    matrix.rows = static_cast<std::uint32_t>(place.tensor->rows());
    matrix.columns = static_cast<std::uint32_t>(place.tensor->row_elements());
    matrix.codes = block_.subspan(place.codes_offset, matrix.rows * matrix.code_row_bytes());
    matrix.scales = block_.subspan(place.scales_offset, matrix.rows * matrix.scale_row_bytes());
    return matrix;
  };
  views_.format = format;
  views_.token_embd = take();
  views_.output = tensors.output != tensors.token_embd ? take() : views_.token_embd;
  views_.output_norm = norm_of(*tensors.output_norm);
  for (const LayerTensors& source : tensors.layers) {
    LayerWeights& layer = views_.layers.emplace_back();
    layer.attn_norm = norm_of(*source.attn_norm);
    layer.ffn_norm = norm_of(*source.ffn_norm);
    // The order of for_each_linear.
    for (WeightMatrix* matrix : {&layer.attn_q, &layer.attn_k, &layer.attn_v, &layer.attn_output, &layer.ffn_gate,
                                 &layer.ffn_up, &layer.ffn_down}) {
      *matrix = take();
    }
  }
}

}  // namespace jal::llm
