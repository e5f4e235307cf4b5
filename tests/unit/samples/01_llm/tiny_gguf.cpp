// The writer, the encoders, and the tiny model.
#include "tests/unit/samples/01_llm/tiny_gguf.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <random>
#include <stdexcept>

#include "samples/01_llm/known_models.hpp"
#include "samples/01_llm/utf8.hpp"

namespace jal::llm::test {

const char* const kSmolLmTemplate =
    "{% for message in messages %}{% if loop.first and messages[0]['role'] != 'system' %}{{ '<|im_start|>system\n"
    "You are a helpful AI assistant named SmolLM, trained by Hugging Face<|im_end|>\n"
    "' }}{% endif %}{{'<|im_start|>' + message['role'] + '\n"
    "' + message['content'] + '<|im_end|>' + '\n"
    "'}}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n"
    "' }}{% endif %}";

namespace {

template <typename T>
std::string raw(T value) {
  std::string bytes(sizeof value, '\0');
  std::memcpy(bytes.data(), &value, sizeof value);
  return bytes;
}

std::string text(std::string_view value) { return raw<std::uint64_t>(value.size()) + std::string(value); }

std::string array_head(GgufType element, std::size_t count) {
  return raw(static_cast<std::uint32_t>(element)) + raw<std::uint64_t>(count);
}

/// FP32 to binary16 for values of ordinary size; rounds half up, denormals become 0.
std::uint16_t f16(float x) {
  const auto bits = std::bit_cast<std::uint32_t>(x);
  const std::uint32_t magnitude = (bits & 0x7fffffffu) + 0x1000u;
  if (magnitude < (113u << 23)) return static_cast<std::uint16_t>(bits >> 16 & 0x8000u);
  return static_cast<std::uint16_t>((bits >> 16 & 0x8000u) | (magnitude - (112u << 23)) >> 13);
}

unsigned clamp_round(float x, int low, int high) {
  return static_cast<unsigned>(std::clamp(static_cast<int>(std::lround(x)), low, high));
}

template <typename Code>
void pack_nibbles(std::string& out, const float* x, Code code) {
  for (std::size_t j = 0; j < 16; ++j) out.push_back(static_cast<char>(code(x[j]) | code(x[j + 16]) << 4));
}

unsigned nearest_e2m1(float x) {
  constexpr float kValues[8] = {0, 0.5f, 1, 1.5f, 2, 3, 4, 6};
  unsigned best = 0;
  for (unsigned i = 1; i < 8; ++i) {
    if (std::fabs(std::fabs(x) - kValues[i]) < std::fabs(std::fabs(x) - kValues[best])) best = i;
  }
  return best | (std::signbit(x) ? 8u : 0u);
}

void encode_block(std::string& out, GgufTensorType type, const float* x) {
  const auto [low, high] = std::minmax_element(x, x + 32);
  const float amax = std::max(std::fabs(*low), std::fabs(*high));
  switch (type) {
    case GgufTensorType::q4_0: {
      const float d = amax / 7.0f;
      out += raw(f16(d));
      pack_nibbles(out, x, [d](float v) { return clamp_round(d == 0 ? 8.0f : v / d + 8.0f, 0, 15); });
      break;
    }
    case GgufTensorType::q4_1: {
      const float m = *low;
      const float d = (*high - m) / 15.0f;
      out += raw(f16(d)) + raw(f16(m));
      pack_nibbles(out, x, [d, m](float v) { return clamp_round(d == 0 ? 0.0f : (v - m) / d, 0, 15); });
      break;
    }
    case GgufTensorType::q8_0: {
      const float d = amax / 127.0f;
      out += raw(f16(d));
      for (int j = 0; j < 32; ++j) out.push_back(static_cast<char>(d == 0 ? 0 : std::lround(x[j] / d)));
      break;
    }
    case GgufTensorType::mxfp4: {
      const int exponent = amax == 0 ? -127 : static_cast<int>(std::ceil(std::log2(amax / 6.0f)));
      out.push_back(static_cast<char>(exponent + 127));
      pack_nibbles(out, x, [exponent](float v) { return nearest_e2m1(std::ldexp(v, -exponent)); });
      break;
    }
    case GgufTensorType::f32:
    case GgufTensorType::f16:
    case GgufTensorType::bf16:
      break;
  }
}

/// The 256 characters of the byte-level alphabet, by byte, built as its definition says: printable bytes stand for
/// themselves.
std::vector<std::string> byte_characters() {
  std::vector<std::string> characters(256);
  char32_t next = 256;
  for (unsigned b = 0; b < 256; ++b) {
    const bool itself = (b >= '!' && b <= '~') || (b >= 0xa1 && b <= 0xac) || b >= 0xae;
    utf8_append(characters[b], itself ? b : next++);
  }
  return characters;
}

/// Byte-pair training on a few sentences: `count` merges, as pairs of token texts.
std::vector<std::pair<std::string, std::string>> train_merges(std::size_t count,
                                                              const std::vector<std::string>& bytes) {
  const std::string sentences =
      "the cat and the dog sat on the mat; then the other cats sang in the rain and the sun went down on the town "
      "while all there were listening to the singing of the winds and the water in the stones of the old hill";
  std::vector<std::vector<std::string>> words(1);
  for (const char c : sentences) {
    if (c == ' ') words.emplace_back();
    words.back().push_back(bytes[static_cast<unsigned char>(c)]);
  }
  std::vector<std::pair<std::string, std::string>> merges;
  while (merges.size() < count) {
    std::map<std::pair<std::string, std::string>, int> pairs;
    for (const auto& word : words) {
      for (std::size_t i = 1; i < word.size(); ++i) ++pairs[{word[i - 1], word[i]}];
    }
    if (pairs.empty()) throw std::logic_error("the sentences give no more merges; ask for a smaller vocabulary");
    const auto best =
        std::max_element(pairs.begin(), pairs.end(), [](auto& a, auto& b) { return a.second < b.second; })->first;
    merges.push_back(best);
    for (auto& word : words) {
      for (std::size_t i = 1; i < word.size(); ++i) {
        if (word[i - 1] != best.first || word[i] != best.second) continue;
        word[i - 1] += word[i];
        word.erase(word.begin() + static_cast<std::ptrdiff_t>(i));
      }
    }
  }
  return merges;
}

/// Normal values from a fixed generator (the standard's distributions differ between libraries).
std::vector<float> normal_values(std::mt19937_64& random, std::size_t count, float sigma) {
  std::vector<float> values(count);
  for (float& value : values) {
    double sum = -6.0;
    for (int i = 0; i < 12; ++i) sum += static_cast<double>(random() >> 11) * 0x1p-53;
    value = static_cast<float>(sum) * sigma;
  }
  return values;
}

void add_vocabulary(GgufWriter& file, std::uint32_t vocab) {
  std::vector<std::string> tokens = {"<|endoftext|>", "<|im_start|>", "<|im_end|>"};
  const std::vector<std::string> bytes = byte_characters();
  tokens.insert(tokens.end(), bytes.begin(), bytes.end());
  std::vector<std::string> merges;
  for (const auto& [left, right] : train_merges(vocab - tokens.size(), bytes)) {
    tokens.push_back(left + right);
    merges.push_back(left + " " + right);
  }
  std::vector<std::int32_t> types(tokens.size(), 1);
  std::fill(types.begin(), types.begin() + 3, 3);
  file.add("tokenizer.ggml.model", "gpt2");
  file.add("tokenizer.ggml.pre", "smollm");
  file.add("tokenizer.ggml.tokens", tokens);
  file.add("tokenizer.ggml.token_type", types);
  file.add("tokenizer.ggml.merges", merges);
  file.add("tokenizer.ggml.eos_token_id", std::uint32_t{2});
  file.add("tokenizer.ggml.add_bos_token", false);
  file.add("tokenizer.chat_template", kSmolLmTemplate);
}

}  // namespace

void GgufWriter::add_raw(std::string_view key, GgufType type, std::string_view value) {
  metadata_ += text(key) + raw(static_cast<std::uint32_t>(type)) + std::string(value);
  ++metadata_count_;
}
void GgufWriter::add(std::string_view key, std::uint32_t value) { add_raw(key, GgufType::uint32, raw(value)); }
void GgufWriter::add(std::string_view key, float value) { add_raw(key, GgufType::float32, raw(value)); }
void GgufWriter::add(std::string_view key, bool value) {
  add_raw(key, GgufType::boolean, value ? "\1" : std::string_view("\0", 1));
}
void GgufWriter::add(std::string_view key, std::string_view value) { add_raw(key, GgufType::string, text(value)); }
void GgufWriter::add(std::string_view key, const std::vector<std::string>& values) {
  std::string bytes = array_head(GgufType::string, values.size());
  for (const std::string& value : values) bytes += text(value);
  add_raw(key, GgufType::array, bytes);
}
void GgufWriter::add(std::string_view key, const std::vector<std::int32_t>& values) {
  std::string bytes = array_head(GgufType::int32, values.size());
  for (const std::int32_t value : values) bytes += raw(value);
  add_raw(key, GgufType::array, bytes);
}

void GgufWriter::add_tensor(std::string_view name, std::uint32_t type, std::vector<std::uint64_t> dims,
                            std::string bytes) {
  tensors_.push_back({std::string(name), type, std::move(dims), std::move(bytes)});
}
void GgufWriter::add_tensor(std::string_view name, GgufTensorType type, std::vector<std::uint64_t> dims,
                            const std::vector<float>& values) {
  add_tensor(name, static_cast<std::uint32_t>(type), std::move(dims), encode(type, values));
}

std::string GgufWriter::bytes(std::size_t* out_data_offset) const {
  const auto align = [&](std::string& s) { s.resize((s.size() + alignment - 1) / alignment * alignment, '\0'); };
  std::string metadata = metadata_;
  std::uint64_t count = metadata_count_;
  if (alignment != 32) {
    metadata += text("general.alignment") + raw(static_cast<std::uint32_t>(GgufType::uint32)) +
                raw(static_cast<std::uint32_t>(alignment));
    ++count;
  }
  std::string file = "GGUF" + raw(version) +
                     raw<std::uint64_t>(claimed_tensors == UINT64_MAX ? tensors_.size() : claimed_tensors) +
                     raw<std::uint64_t>(claimed_metadata == UINT64_MAX ? count : claimed_metadata) + metadata;
  std::string data;
  for (const Tensor& tensor : tensors_) {
    align(data);
    file += text(tensor.name) + raw(static_cast<std::uint32_t>(tensor.dims.size()));
    for (const std::uint64_t dim : tensor.dims) file += raw(dim);
    file += raw(tensor.type) + raw<std::uint64_t>(data.size());
    data += tensor.bytes;
  }
  align(file);
  if (out_data_offset != nullptr) *out_data_offset = file.size();
  return file + data;
}

std::string encode(GgufTensorType type, const std::vector<float>& values) {
  std::string out;
  if (type == GgufTensorType::f32 || type == GgufTensorType::f16 || type == GgufTensorType::bf16) {
    for (const float value : values) {
      if (type == GgufTensorType::f32) out += raw(value);
      if (type == GgufTensorType::f16) out += raw(f16(value));
      if (type == GgufTensorType::bf16)
        out += raw(static_cast<std::uint16_t>((std::bit_cast<std::uint32_t>(value) + 0x8000u) >> 16));
    }
    return out;
  }
  for (std::size_t i = 0; i + 32 <= values.size(); i += 32) encode_block(out, type, values.data() + i);
  return out;
}

GgufWriter tiny_model(const TinyModel& options) {
  GgufWriter file;
  file.add("general.architecture", "llama");
  file.add("general.name", "tiny");
  file.add("llama.block_count", options.layers);
  file.add("llama.embedding_length", options.hidden);
  file.add("llama.feed_forward_length", options.ffn);
  file.add("llama.attention.head_count", options.heads);
  file.add("llama.attention.head_count_kv", options.kv_heads);
  file.add("llama.context_length", options.context);
  file.add("llama.rope.freq_base", 10000.0f);
  file.add("llama.attention.layer_norm_rms_epsilon", 1e-5f);
  file.add("llama.vocab_size", options.vocab);
  add_vocabulary(file, options.vocab);

  std::mt19937_64 random(options.seed);
  const auto matrix = [&](const std::string& name, GgufTensorType type, std::uint64_t rows, std::uint64_t columns) {
    const float sigma = 1.0f / std::sqrt(static_cast<float>(columns));
    file.add_tensor(name, type, {columns, rows}, normal_values(random, rows * columns, sigma));
  };
  const auto norm = [&](const std::string& name) {
    std::vector<float> values = normal_values(random, options.hidden, 0.1f);
    for (float& value : values) value += 1.0f;
    file.add_tensor(name, GgufTensorType::f32, {options.hidden}, values);
  };
  const std::uint64_t kv_rows = std::uint64_t{options.hidden} / options.heads * options.kv_heads;
  matrix("token_embd.weight", options.embedding, options.vocab, options.hidden);
  for (std::uint32_t i = 0; i < options.layers; ++i) {
    const std::string block = "blk." + std::to_string(i) + ".";
    norm(block + "attn_norm.weight");
    matrix(block + "attn_q.weight", options.matrices, options.hidden, options.hidden);
    matrix(block + "attn_k.weight", options.matrices, kv_rows, options.hidden);
    matrix(block + "attn_v.weight", options.matrices, kv_rows, options.hidden);
    matrix(block + "attn_output.weight", options.matrices, options.hidden, options.hidden);
    norm(block + "ffn_norm.weight");
    matrix(block + "ffn_gate.weight", options.matrices, options.ffn, options.hidden);
    matrix(block + "ffn_up.weight", options.matrices, options.ffn, options.hidden);
    matrix(block + "ffn_down.weight", options.matrices, options.hidden, options.ffn);
  }
  norm("output_norm.weight");
  if (!options.tied_head) matrix("output.weight", options.embedding, options.vocab, options.hidden);
  return file;
}

TemporaryFile::TemporaryFile(const std::string& name, std::string_view bytes) {
  const char* folder = std::getenv("TMPDIR");
  path_ = std::string(folder != nullptr ? folder : "/tmp") + "/jal_test_" + std::to_string(::getpid()) + "_" + name;
  write(bytes);
}
TemporaryFile::~TemporaryFile() { std::remove(path_.c_str()); }
void TemporaryFile::write(std::string_view bytes) const {
  std::FILE* file = std::fopen(path_.c_str(), "wb");
  if (file == nullptr || std::fwrite(bytes.data(), 1, bytes.size(), file) != bytes.size() || std::fclose(file) != 0) {
    throw std::runtime_error("cannot write " + path_);
  }
}

void TemporaryFile::truncate(std::size_t size_bytes) const {
  if (::truncate(path_.c_str(), static_cast<off_t>(size_bytes)) != 0)
    throw std::runtime_error("cannot truncate " + path_);
}
void TemporaryFile::set_byte(std::size_t at, char value) const {
  const int fd = ::open(path_.c_str(), O_WRONLY | O_CLOEXEC);
  const bool good = fd >= 0 && ::pwrite(fd, &value, 1, static_cast<off_t>(at)) == 1;
  ::close(fd);
  if (!good) throw std::runtime_error("cannot write " + path_);
}

std::string real_model_path() {
  const char* cache = std::getenv("XDG_CACHE_HOME");
  const char* home = std::getenv("HOME");
  std::string path;
  if (cache != nullptr && *cache != '\0')
    path = cache;
  else if (home != nullptr)
    path = std::string(home) + "/.cache";
  path += "/jal/models/" + std::string(known_models()[0].file_name);
  return ::access(path.c_str(), R_OK) == 0 ? path : "";
}

}  // namespace jal::llm::test
