// Metadata to hyperparameters, names to tensors.
#include "samples/01_llm/model_config.hpp"

#include <spdlog/fmt/fmt.h>

#include <cmath>
#include <string_view>
#include <unordered_set>

namespace jal::llm {
namespace {

// Above every published model of this architecture; they bound what is allocated from a file's word alone.
constexpr std::uint64_t kMaxLayers = 1024;
constexpr std::uint64_t kMaxHidden = 1u << 17;
constexpr std::uint64_t kMaxFfn = 1u << 20;
constexpr std::uint64_t kMaxHeads = 4096;
constexpr std::uint64_t kMaxHeadDim = 1024;
constexpr std::uint64_t kMaxContext = 1u << 28;
constexpr std::uint64_t kMaxVocab = 1u << 24;

[[noreturn]] void fail(const GgufFile& file, GgufErrorCode code, const std::string& message) {
  throw GgufError(code, fmt::format("{}: {}", file.path(), message));
}

std::uint32_t count(const GgufFile& file, std::string_view key, std::uint64_t value, std::uint64_t limit) {
  if (value == 0 || value > limit) {
    fail(file, value == 0 ? GgufErrorCode::corrupt : GgufErrorCode::too_large,
         fmt::format("{} is {}, must be 1 to {}; fetch or convert the file again", key, value, limit));
  }
  return static_cast<std::uint32_t>(value);
}

std::uint32_t required_count(const GgufFile& file, std::string_view key, std::uint64_t limit) {
  const auto value = file.find_unsigned(key);
  if (!value)
    fail(file, GgufErrorCode::missing_tensor,
         fmt::format("has no metadata '{}', which a Llama model needs; convert it again", key));
  return count(file, key, *value, limit);
}

float positive(const GgufFile& file, std::string_view key, double value) {
  if (!(value > 0.0) || value > 1e12) {
    fail(file, GgufErrorCode::corrupt,
         fmt::format("{} is {}, must be positive; fetch or convert the file again", key, value));
  }
  return static_cast<float>(value);
}

void refuse_other_architectures(const GgufFile& file) {
  const auto architecture = file.find_string("general.architecture");
  if (!architecture)
    fail(file, GgufErrorCode::missing_tensor, "has no metadata 'general.architecture'; convert it again");
  if (*architecture != "llama") {
    fail(file, GgufErrorCode::unsupported,
         fmt::format("is of architecture '{}', this program runs 'llama'; choose another model", *architecture));
  }
  if (const auto experts = file.find_unsigned("llama.expert_count"); experts && *experts != 0) {
    fail(file, GgufErrorCode::unsupported,
         fmt::format("has {} experts, this program runs dense models; choose another model", *experts));
  }
  if (const auto scaling = file.find_string("llama.rope.scaling.type"); scaling && *scaling != "none") {
    fail(file, GgufErrorCode::unsupported,
         fmt::format("scales its RoPE ('{}'), which this program does not; choose another model", *scaling));
  }
}

/// Hands out tensors by name and remembers which were asked for.
class TensorTable {
 public:
  explicit TensorTable(const GgufFile& file) : file_(file) {}

  const GgufTensor* matrix(const std::string& name, std::uint64_t rows, std::uint64_t columns) {
    return get(name, 2, columns, rows);
  }
  const GgufTensor* vector(const std::string& name, std::uint64_t elements) {
    const GgufTensor* tensor = get(name, 1, elements, 1);
    if (tensor->type != GgufTensorType::f32) {
      fail(file_, GgufErrorCode::unsupported,
           fmt::format("tensor '{}' is {}, norms must be F32; convert the file again", name, name_of(tensor->type)));
    }
    return tensor;
  }

  void refuse_the_rest() const {
    for (const GgufTensor& tensor : file_.tensors()) {
      if (used_.count(tensor.name) == 0) {
        fail(file_, GgufErrorCode::unsupported,
             fmt::format("tensor '{}' has no place in the Llama models this program runs (no biases, no RoPE factors); "
                         "choose another model",
                         tensor.name));
      }
    }
  }

 private:
  const GgufTensor* get(const std::string& name, std::uint32_t n_dims, std::uint64_t columns, std::uint64_t rows) {
    const GgufTensor* tensor = file_.find_tensor(name);
    if (tensor == nullptr) {
      fail(file_, GgufErrorCode::missing_tensor,
           fmt::format("has no tensor '{}' ({} x {}); fetch or convert the file again", name, rows, columns));
    }
    if (tensor->n_dims > n_dims || tensor->row_elements() != columns || tensor->rows() != rows) {
      fail(file_, GgufErrorCode::corrupt,
           fmt::format(
               "tensor '{}' is {} x {} in {} dimensions, the metadata imply {} x {}; fetch or convert the file again",
               name, tensor->rows(), tensor->row_elements(), tensor->n_dims, rows, columns));
    }
    used_.insert(tensor->name);
    return tensor;
  }

  const GgufFile& file_;
  std::unordered_set<std::string_view> used_;
};

}  // namespace

ModelConfig read_model_config(const GgufFile& file) {
  refuse_other_architectures(file);
  ModelConfig config;
  config.name =
      file.find_string("general.name").value_or(std::string_view(file.path()).substr(file.path().rfind('/') + 1));
  config.layers = required_count(file, "llama.block_count", kMaxLayers);
  config.hidden = required_count(file, "llama.embedding_length", kMaxHidden);
  config.ffn = required_count(file, "llama.feed_forward_length", kMaxFfn);
  config.context = required_count(file, "llama.context_length", kMaxContext);
  config.heads = required_count(file, "llama.attention.head_count", kMaxHeads);
  config.kv_heads = count(file, "llama.attention.head_count_kv",
                          file.find_unsigned("llama.attention.head_count_kv").value_or(config.heads), kMaxHeads);
  if (config.heads % config.kv_heads != 0) {
    fail(file, GgufErrorCode::corrupt,
         fmt::format("{} heads do not divide over {} KV heads; fetch or convert the file again", config.heads,
                     config.kv_heads));
  }
  const auto key_length = file.find_unsigned("llama.attention.key_length");
  if (!key_length && config.hidden % config.heads != 0) {
    fail(file, GgufErrorCode::corrupt,
         fmt::format("hidden size {} does not divide into {} heads; fetch or convert the file again", config.hidden,
                     config.heads));
  }
  config.head_dim = count(file, "the head dimension", key_length.value_or(config.hidden / config.heads), kMaxHeadDim);
  const std::uint64_t value_length = file.find_unsigned("llama.attention.value_length").value_or(config.head_dim);
  const std::uint64_t rope_dims = file.find_unsigned("llama.rope.dimension_count").value_or(config.head_dim);
  if (config.head_dim % 2 != 0 || value_length != config.head_dim || rope_dims != config.head_dim) {
    fail(file, GgufErrorCode::unsupported,
         fmt::format("head dimension {} (must be even), value dimension {} and RoPE dimensions {} must be equal; "
                     "choose another model",
                     config.head_dim, value_length, rope_dims));
  }
  config.rope_base = positive(file, "llama.rope.freq_base", file.find_number("llama.rope.freq_base").value_or(10000.0));
  const auto eps = file.find_number("llama.attention.layer_norm_rms_epsilon");
  if (!eps)
    fail(file, GgufErrorCode::missing_tensor,
         "has no metadata 'llama.attention.layer_norm_rms_epsilon'; convert it again");
  config.rms_eps = positive(file, "llama.attention.layer_norm_rms_epsilon", *eps);
  const GgufTensor* embedding = file.find_tensor("token_embd.weight");
  if (embedding == nullptr)
    fail(file, GgufErrorCode::missing_tensor, "has no tensor 'token_embd.weight'; fetch or convert the file again");
  config.vocab = count(file, "the vocabulary", embedding->rows(), kMaxVocab);
  if (const auto vocab = file.find_unsigned("llama.vocab_size"); vocab && *vocab != config.vocab) {
    fail(file, GgufErrorCode::corrupt,
         fmt::format("llama.vocab_size is {}, but 'token_embd.weight' has {} rows; fetch or convert the file again",
                     *vocab, config.vocab));
  }
  config.tied_head = file.find_tensor("output.weight") == nullptr;
  return config;
}

ModelTensors read_model_tensors(const GgufFile& file, const ModelConfig& config) {
  TensorTable table(file);
  ModelTensors tensors;
  tensors.token_embd = table.matrix("token_embd.weight", config.vocab, config.hidden);
  tensors.output_norm = table.vector("output_norm.weight", config.hidden);
  tensors.output = config.tied_head ? tensors.token_embd : table.matrix("output.weight", config.vocab, config.hidden);
  for (std::uint32_t i = 0; i < config.layers; ++i) {
    const std::string block = fmt::format("blk.{}.", i);
    LayerTensors layer;
    layer.attn_norm = table.vector(block + "attn_norm.weight", config.hidden);
    layer.attn_q = table.matrix(block + "attn_q.weight", config.q_rows(), config.hidden);
    layer.attn_k = table.matrix(block + "attn_k.weight", config.kv_rows(), config.hidden);
    layer.attn_v = table.matrix(block + "attn_v.weight", config.kv_rows(), config.hidden);
    layer.attn_output = table.matrix(block + "attn_output.weight", config.hidden, config.q_rows());
    layer.ffn_norm = table.vector(block + "ffn_norm.weight", config.hidden);
    layer.ffn_gate = table.matrix(block + "ffn_gate.weight", config.ffn, config.hidden);
    layer.ffn_up = table.matrix(block + "ffn_up.weight", config.ffn, config.hidden);
    layer.ffn_down = table.matrix(block + "ffn_down.weight", config.hidden, config.ffn);
    tensors.layers.push_back(layer);
  }
  table.refuse_the_rest();
  return tensors;
}

}  // namespace jal::llm
