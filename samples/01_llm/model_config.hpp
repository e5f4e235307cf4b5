// What a Llama-architecture model file says about itself, checked: hyperparameters and the tensors by role.
//
// What it is not: the weights in a device format (weights.hpp), the tokenizer, the chat template.
// Invariant: every tensor in ModelTensors exists and has the shape that ModelConfig implies; no tensor of the file is
// left unused. Contract: keys `llama.*` and tensor names of the GGUF specification.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "samples/01_llm/gguf.hpp"

namespace jal::llm {

struct ModelConfig {
  std::string name;  ///< general.name, or the file's name
  std::uint32_t layers = 0;
  std::uint32_t hidden = 0;
  std::uint32_t ffn = 0;
  std::uint32_t heads = 0;
  std::uint32_t kv_heads = 0;
  std::uint32_t head_dim = 0;  ///< even; RoPE covers all of it, in interleaved pairs (2i, 2i + 1)
  std::uint32_t vocab = 0;
  std::uint32_t context = 0;  ///< tokens the model was trained for
  float rope_base = 0.0f;
  float rms_eps = 0.0f;
  bool tied_head = false;  ///< the head is token_embd

  std::uint32_t q_rows() const { return heads * head_dim; }
  std::uint32_t kv_rows() const { return kv_heads * head_dim; }
};

/// Matrices are rows x columns = outputs x inputs, a row contiguous: [q_rows, hidden] for attn_q. Norms are FP32
/// vectors of one row.
struct LayerTensors {
  const GgufTensor* attn_norm = nullptr;
  const GgufTensor* attn_q = nullptr;
  const GgufTensor* attn_k = nullptr;
  const GgufTensor* attn_v = nullptr;
  const GgufTensor* attn_output = nullptr;
  const GgufTensor* ffn_norm = nullptr;
  const GgufTensor* ffn_gate = nullptr;
  const GgufTensor* ffn_up = nullptr;
  const GgufTensor* ffn_down = nullptr;
};

struct ModelTensors {
  const GgufTensor* token_embd = nullptr;
  const GgufTensor* output_norm = nullptr;
  const GgufTensor* output = nullptr;  ///< equal to token_embd when the head is tied
  std::vector<LayerTensors> layers;
};

/// Reads and checks the hyperparameters. Throws GgufError: unsupported (another architecture, experts, scaled RoPE),
/// missing_tensor (a key is absent), corrupt (values that contradict each other), too_large.
ModelConfig read_model_config(const GgufFile& file);

/// Finds every tensor and checks its shape. Throws GgufError: missing_tensor, corrupt (shape), unsupported (a tensor
/// that this architecture does not have, for example a bias). The pointers live as long as `file`.
ModelTensors read_model_tensors(const GgufFile& file, const ModelConfig& config);

}  // namespace jal::llm
