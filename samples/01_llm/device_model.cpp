// The model on the chip. See device_model.hpp.
#include "samples/01_llm/device_model.hpp"

#include <algorithm>
#include <cstring>
#include <stdexcept>

namespace jal::llm {
namespace {

std::uint32_t dtype_of(WeightFormat format) {
  switch (format) {
    case WeightFormat::mxfp8:
      return JAL_DTYPE_MXFP8;
    case WeightFormat::mxfp4:
      return JAL_DTYPE_MXFP4;
    default:
      return JAL_DTYPE_BF16;
  }
}

/// Rows of several matrices of one width, one after the other, in plain order.
struct RowBlock {
  std::vector<std::uint8_t> codes, scales;
  std::uint32_t rows = 0;

  void append(const WeightMatrix& matrix, std::uint32_t first, std::uint32_t count) {
    const std::size_t code = matrix.code_row_bytes(), scale = matrix.scale_row_bytes();
    codes.insert(codes.end(), matrix.codes.begin() + static_cast<std::ptrdiff_t>(first * code),
                 matrix.codes.begin() + static_cast<std::ptrdiff_t>((first + count) * code));
    if (scale != 0) {
      scales.insert(scales.end(), matrix.scales.begin() + static_cast<std::ptrdiff_t>(first * scale),
                    matrix.scales.begin() + static_cast<std::ptrdiff_t>((first + count) * scale));
    }
    rows += count;
  }
  /// Zero rows: codes 0 are +0 in every format.
  void pad(const WeightMatrix& like, std::uint32_t count) {
    codes.resize(codes.size() + count * like.code_row_bytes(), 0);
    scales.resize(scales.size() + count * like.scale_row_bytes(), 0);
    rows += count;
  }
};

Tensor deal(const Device& device, std::uint64_t mask, std::uint32_t dtype, std::uint32_t rows, std::uint32_t columns,
            const std::uint8_t* codes, const std::uint8_t* scales) {
  TensorInfo info(dtype, {rows, columns});
  info.shard(0, mask).engine_tiling();
  Tensor tensor(device, info);
  tensor.upload(dtype, codes, scales);
  return tensor;
}

std::uint64_t payload_bytes(const WeightMatrix& matrix) { return matrix.codes.size() + matrix.scales.size(); }

}  // namespace

DeviceModel::DeviceModel(const Device& device, const std::string& ops_path, const ModelConfig& config,
                         const WeightViews& weights, std::uint32_t context)
    : device_(device),
      config_(config),
      context_(std::min(context, config.context)),
      cores_(device.info().cores),
      all_(cores_ >= 64 ? ~0ull : (1ull << cores_) - 1) {
  if (config.layers > JAL_LLAMA_LAYERS_MAX) {
    throw std::invalid_argument("the model has " + std::to_string(config.layers) + " layers; the kernel runs at most " +
                                std::to_string(JAL_LLAMA_LAYERS_MAX));
  }
  const std::uint32_t dtype = dtype_of(weights.format);
  args_.layers = config.layers;
  args_.hidden = config.hidden;
  args_.ffn = config.ffn;
  args_.heads = config.heads;
  args_.kv_heads = config.kv_heads;
  args_.head_dim = config.head_dim;
  args_.vocab = config.vocab;
  args_.weight_dtype = dtype;
  args_.norm_epsilon = config.rms_eps;
  args_.rope_base = config.rope_base;
  args_.kv_slots = jal_llama_kv_slots(context_, config.kv_heads, cores_);

  const auto keep = [&](Tensor tensor) {
    matrices_.push_back(std::move(tensor));
    return static_cast<std::uint32_t>(matrices_.back().info().offset);
  };
  args_.embedding_offset = deal_rows(weights.token_embd);
  args_.head_offset = config.tied_head ? args_.embedding_offset : deal_rows(weights.output);
  weight_bytes_per_token_ += payload_bytes(weights.output);

  std::vector<float> norms;
  for (std::uint32_t l = 0; l < config.layers; ++l) {
    const LayerWeights& w = weights.layers[l];
    jal_llama_layer& at = args_.layer[l];
    RowBlock qkv;
    for (const WeightMatrix* matrix : {&w.attn_q, &w.attn_k, &w.attn_v}) qkv.append(*matrix, 0, matrix->rows);
    at.qkv_offset = keep(deal(device_, all_, dtype, qkv.rows, config.hidden, qkv.codes.data(), qkv.scales.data()));
    at.o_offset = keep(deal(device_, all_, dtype, w.attn_output.rows, w.attn_output.columns, w.attn_output.codes.data(),
                            w.attn_output.scales.data()));
    // For each core its gate rows, then its up rows, so that one GEMM covers both.
    RowBlock gate_up;
    const std::uint32_t f = (config.ffn + cores_ - 1) / cores_;
    for (std::uint32_t core = 0; core < cores_; ++core) {
      const std::uint32_t first = std::min(core * f, config.ffn);
      const std::uint32_t count = std::min(f, config.ffn - first);
      for (const WeightMatrix* matrix : {&w.ffn_gate, &w.ffn_up}) {
        gate_up.append(*matrix, first, count);
        gate_up.pad(*matrix, f - count);
      }
    }
    at.gate_up_offset =
        keep(deal(device_, all_, dtype, gate_up.rows, config.hidden, gate_up.codes.data(), gate_up.scales.data()));
    at.down_offset = keep(deal(device_, all_, dtype, w.ffn_down.rows, w.ffn_down.columns, w.ffn_down.codes.data(),
                               w.ffn_down.scales.data()));
    norms.insert(norms.end(), w.attn_norm.begin(), w.attn_norm.end());
    norms.insert(norms.end(), w.ffn_norm.begin(), w.ffn_norm.end());
    for (const WeightMatrix* matrix :
         {&w.attn_q, &w.attn_k, &w.attn_v, &w.attn_output, &w.ffn_gate, &w.ffn_up, &w.ffn_down}) {
      weight_bytes_per_token_ += payload_bytes(*matrix);
    }
  }
  norms.insert(norms.end(), weights.output_norm.begin(), weights.output_norm.end());
  norms_ = device_.alloc_on_slice(0, norms.size() * sizeof(float));
  device_.copy_to_device(norms_.address(), norms.data(), norms.size() * sizeof(float));
  args_.norms_offset = static_cast<std::uint32_t>(norms_.info().offset);

  kv_ = device_.alloc(all_, config.layers * args_.kv_slots * jal_llama_unit_bytes(config.head_dim));
  args_.kv_offset = static_cast<std::uint32_t>(kv_.info().offset);
  result_ = device_.alloc_on_slice(0, sizeof(jal_llama_result));
  args_.result_offset = static_cast<std::uint32_t>(result_.info().offset);

  module_ = device_.load(ops_path);
  kernel_ = module_.kernel("llama_step");
  stream_ = device_.stream();
  chunk_ = largest_chunk(device_.info().l1_bytes);
}

std::uint32_t DeviceModel::deal_rows(const WeightMatrix& matrix) {
  matrices_.push_back(deal(device_, all_, dtype_of(matrix.format), matrix.rows, matrix.columns, matrix.codes.data(),
                           matrix.scales.data()));
  return static_cast<std::uint32_t>(matrices_.back().info().offset);
}

const char* DeviceModel::operation() const {
  switch (args_.weight_dtype) {
    case JAL_DTYPE_MXFP8:
      return "mxfp8_bf16";
    case JAL_DTYPE_MXFP4:
      return "mxfp4_bf16";
    default:
      return "bf16_f32";
  }
}

/// The kernel's L1 for m tokens, bounded from above: its tiles by name (firmware/ops/llama), FP32 unless said.
std::uint32_t DeviceModel::largest_chunk(std::uint32_t l1_bytes) const {
  const std::uint64_t hidden = config_.hidden, ffn = config_.ffn;
  const std::uint64_t qkv = config_.q_rows() + 2ull * config_.kv_rows();
  const std::uint64_t norms = std::min<std::uint64_t>(192 * 1024, 8 * hidden * config_.layers) + 4 * hidden;
  const std::uint64_t per_core = cores_;
  const std::uint64_t weights =
      2 * ((qkv + hidden + 2 * ffn) * hidden + hidden * (config_.q_rows() + ffn)) / per_core + 8 * 4096;
  const std::uint64_t pages = (context_ + JAL_LLAMA_PAGE_TOKENS - 1) / JAL_LLAMA_PAGE_TOKENS;
  const std::uint64_t units = (pages * config_.kv_heads + per_core - 1) / per_core;
  for (std::uint32_t m = JAL_LLAMA_CHUNK_MAX; m > 1; m /= 2) {
    const std::uint64_t rows = m * (config_.heads / config_.kv_heads);
    const std::uint64_t scratch = 4ull * m * (2 * hidden + (qkv + hidden + 3 * ffn) / per_core + 64);
    const std::uint64_t fixed = 2 * norms + weights + scratch + 4ull * m * (2 * hidden + config_.head_dim);
    const std::uint64_t attention = 4ull * m * (qkv + 2 * config_.q_rows()) +
                                    4 * units * rows * (config_.head_dim + 2) + 8 * rows * config_.head_dim;
    const std::uint64_t feed_forward = 8ull * m * ffn;
    if (fixed + std::max(attention, feed_forward) + 64 * 1024 <= l1_bytes) return m;
  }
  return 1;
}

void DeviceModel::check_room(std::size_t tokens) const {
  if (tokens > context_ - position_) {
    throw std::invalid_argument(std::to_string(tokens) + " tokens at position " + std::to_string(position_) +
                                ": the context holds " + std::to_string(context_) +
                                "; shorten the prompt or raise --context (the model allows " +
                                std::to_string(config_.context) + ")");
  }
}

jal_llama_result DeviceModel::step(std::span<const TokenId> tokens, std::uint32_t flags, const Sampling& sampling) {
  args_.tokens = static_cast<std::uint32_t>(tokens.size());
  args_.position = position_;
  args_.flags = flags;
  args_.temperature = sampling.temperature;
  args_.top_p = sampling.top_p;
  args_.top_k = std::clamp<std::uint32_t>(sampling.top_k, 1, JAL_LLAMA_TOP_K_MAX);
  args_.seed = sampling.seed;
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    if (tokens[i] < 0 || static_cast<std::uint32_t>(tokens[i]) >= config_.vocab) {
      throw std::invalid_argument("token id " + std::to_string(tokens[i]) + ": the vocabulary has " +
                                  std::to_string(config_.vocab));
    }
    args_.token[i] = static_cast<std::uint32_t>(tokens[i]);
  }
  jal_llama_result result{};
  stream_.launch(kernel_, all_, args_);
  if ((flags & JAL_LLAMA_SAMPLE) != 0) stream_.copy_to_host(&result, result_.address(), sizeof result);
  stream_.synchronize();
  position_ += args_.tokens;
  return result;
}

TokenId DeviceModel::prefill(std::span<const TokenId> tokens, const Sampling& sampling) {
  if (tokens.empty()) throw std::invalid_argument("an empty prompt: at least one token is needed");
  check_room(tokens.size());
  stream_.set_phase(JAL_PHASE_PREFILL);
  jal_llama_result result{};
  for (std::size_t at = 0; at < tokens.size(); at += chunk_) {
    const std::span<const TokenId> part = tokens.subspan(at, std::min<std::size_t>(chunk_, tokens.size() - at));
    const bool is_last = at + part.size() == tokens.size();
    stream_.count_tokens(JAL_PHASE_PREFILL, part.size());
    result = step(part, is_last ? JAL_LLAMA_SAMPLE : 0, sampling);
  }
  return static_cast<TokenId>(result.token);
}

TokenId DeviceModel::decode(TokenId token, const Sampling& sampling) {
  check_room(1);
  stream_.set_phase(JAL_PHASE_VERIFY_DECODE);
  stream_.count_tokens(JAL_PHASE_VERIFY_DECODE, 1);
  return static_cast<TokenId>(step({&token, 1}, JAL_LLAMA_SAMPLE, sampling).token);
}

std::vector<float> DeviceModel::logits(std::span<const TokenId> tokens) {
  check_room(tokens.size());
  const std::uint32_t block = (config_.vocab + cores_ - 1) / cores_;
  if (!logits_) {
    logits_ = device_.alloc(all_, static_cast<std::uint64_t>(chunk_) * block * sizeof(float));
    args_.logits_offset = static_cast<std::uint32_t>(logits_.info().offset);
  }
  stream_.set_phase(JAL_PHASE_PREFILL);
  std::vector<float> all(tokens.size() * config_.vocab);
  std::vector<float> parts;
  for (std::size_t at = 0; at < tokens.size(); at += chunk_) {
    const std::span<const TokenId> part = tokens.subspan(at, std::min<std::size_t>(chunk_, tokens.size() - at));
    stream_.count_tokens(JAL_PHASE_PREFILL, part.size());
    (void)step(part, JAL_LLAMA_LOGITS_ALL, {});
    parts.resize(part.size() * block * cores_);
    stream_.copy_from_slices(parts.data(), all_, args_.logits_offset, part.size() * block * sizeof(float));
    stream_.synchronize();
    for (std::uint32_t core = 0; core < cores_; ++core) {
      const std::uint32_t first = std::min(core * block, config_.vocab);
      const std::uint32_t rows = std::min(block, config_.vocab - first);
      for (std::size_t i = 0; i < part.size(); ++i) {
        std::memcpy(&all[(at + i) * config_.vocab + first], &parts[(core * part.size() + i) * block],
                    rows * sizeof(float));
      }
    }
  }
  return all;
}

void DeviceModel::rewind(std::uint32_t position) {
  if (position > position_) {
    throw std::invalid_argument("rewind to " + std::to_string(position) + ": the conversation has " +
                                std::to_string(position_) + " tokens");
  }
  position_ = position;
}

}  // namespace jal::llm
