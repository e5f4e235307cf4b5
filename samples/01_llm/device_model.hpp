// The model on the chip: weights dealt over the slices, KV cache in place, one kernel launch per step.
//
// What it is not: a tokenizer or a sampler of its own; the device chooses the tokens. Invariant: KV never moves; token
// n of the conversation was computed at position n. A step that fails leaves position() where it was. Contract of the
// kernel: jal/ops/llama.h. Threads: one at a time. Errors: jal::Error; std::invalid_argument for tokens or lengths
// outside the model.
#pragma once
#include <jal/ops/llama.h>

#include <cstdint>
#include <jal/jal.hpp>
#include <span>
#include <string>
#include <vector>

#include "samples/01_llm/model_config.hpp"
#include "samples/01_llm/tokenizer.hpp"
#include "samples/01_llm/weights.hpp"

namespace jal::llm {

struct Sampling {
  float temperature = 0;  ///< 0: the most likely token
  float top_p = 1;        ///< (0, 1]
  std::uint32_t top_k = 40;
  std::uint64_t seed = 0;
};

class DeviceModel {
 public:
  /// Allocates, converts to engine tiles and uploads. `context`: tokens the KV cache holds, at most config.context. The
  /// views may go after.
  DeviceModel(const Device& device, const std::string& ops_path, const ModelConfig& config, const WeightViews& weights,
              std::uint32_t context);

  /// Feeds a prompt in chunks (phase prefill); returns the token chosen after its last one. At least one token.
  TokenId prefill(std::span<const TokenId> tokens, const Sampling& sampling);
  /// Feeds one token (phase verify_decode); returns the next.
  TokenId decode(TokenId token, const Sampling& sampling);
  /// Feeds tokens and returns their logits, row after row: [tokens][vocab].
  std::vector<float> logits(std::span<const TokenId> tokens);

  std::uint32_t position() const { return position_; }
  std::uint32_t context() const { return context_; }
  /// Forgets the tokens from `position` on; their KV is overwritten by what comes.
  void rewind(std::uint32_t position);

  /// Bytes of weights that one decode step reads.
  std::uint64_t weight_bytes_per_token() const { return weight_bytes_per_token_; }
  /// Names of what the layers' matrices multiply: "bf16_f32", "mxfp8_bf16", "mxfp4_bf16".
  const char* operation() const;
  /// Tokens of a prompt that one launch takes.
  std::uint32_t chunk() const { return chunk_; }

 private:
  jal_llama_result step(std::span<const TokenId> tokens, std::uint32_t flags, const Sampling& sampling);
  std::uint32_t deal_rows(const WeightMatrix& matrix);
  std::uint32_t largest_chunk(std::uint32_t l1_bytes) const;
  void check_room(std::size_t tokens) const;

  Device device_;
  ModelConfig config_;
  std::uint32_t context_;
  std::uint32_t cores_;
  std::uint64_t all_;
  std::uint32_t chunk_ = 1;
  std::uint32_t position_ = 0;
  std::uint64_t weight_bytes_per_token_ = 0;
  jal_llama_step args_{};
  std::vector<Tensor> matrices_;
  Memory norms_, kv_, result_, logits_;
  Module module_;
  Kernel kernel_;
  Stream stream_;
};

}  // namespace jal::llm
