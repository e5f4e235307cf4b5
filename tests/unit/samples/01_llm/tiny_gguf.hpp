// Writes GGUF files for tests: any metadata and tensors by hand, or a whole tiny Llama-type model with random weights.
//
// What it is not: a converter. It writes broken files on purpose as well: nothing is checked here.
// Invariant: the same options and seed give the same bytes on every machine.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "samples/01_llm/gguf.hpp"

namespace jal::llm::test {

/// Assembles a file in memory. Order of calls is order in the file.
class GgufWriter {
 public:
  std::uint32_t version = 3;
  std::uint64_t alignment = 32;  ///< of offsets and data; also written as metadata when it is not 32

  /// A metadata entry whose value's bytes are given (its type first).
  void add_raw(std::string_view key, GgufType type, std::string_view value);
  void add(std::string_view key, std::uint32_t value);
  void add(std::string_view key, float value);
  void add(std::string_view key, bool value);
  void add(std::string_view key, std::string_view value);
  void add(std::string_view key, const char* value) { add(key, std::string_view(value)); }
  void add(std::string_view key, const std::vector<std::string>& values);
  void add(std::string_view key, const std::vector<std::int32_t>& values);
  /// A tensor with its bytes; dims[0] runs fastest. `type` may be unknown and the bytes too few.
  void add_tensor(std::string_view name, std::uint32_t type, std::vector<std::uint64_t> dims, std::string bytes);
  /// The same from FP32 rows of dims[0] elements, encoded in a known type.
  void add_tensor(std::string_view name, GgufTensorType type, std::vector<std::uint64_t> dims,
                  const std::vector<float>& values);

  /// The file. *out_data_offset (may be null) is where its data section begins: everything before it is header.
  std::string bytes(std::size_t* out_data_offset = nullptr) const;

  /// Overrides the counts in the header.
  std::uint64_t claimed_tensors = UINT64_MAX;
  std::uint64_t claimed_metadata = UINT64_MAX;

 private:
  struct Tensor {
    std::string name;
    std::uint32_t type;
    std::vector<std::uint64_t> dims;
    std::string bytes;
  };
  std::string metadata_;
  std::uint64_t metadata_count_ = 0;
  std::vector<Tensor> tensors_;
};

/// FP32 to the bytes of a tensor type, simply rounded (no search): good enough to be decoded again.
std::string encode(GgufTensorType type, const std::vector<float>& values);

struct TinyModel {
  std::uint32_t layers = 2;
  std::uint32_t hidden = 64;
  std::uint32_t ffn = 96;
  std::uint32_t heads = 4;
  std::uint32_t kv_heads = 2;
  std::uint32_t context = 256;
  std::uint32_t vocab = 300;  ///< 3 control tokens, 256 bytes, the rest merges
  bool tied_head = true;
  GgufTensorType matrices = GgufTensorType::q4_1;
  GgufTensorType embedding = GgufTensorType::q8_0;
  std::uint64_t seed = 1;
};

/// A file of architecture `llama` with random weights, a byte-level vocabulary (pre-tokenisation `smollm`) and a ChatML
/// template.
GgufWriter tiny_model(const TinyModel& options);

/// The template of the real model's file.
extern const char* const kSmolLmTemplate;

/// A file in the test's temporary folder, removed at the end.
class TemporaryFile {
 public:
  TemporaryFile(const std::string& name, std::string_view bytes);
  ~TemporaryFile();
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;
  void write(std::string_view bytes) const;
  void truncate(std::size_t size_bytes) const;
  void set_byte(std::size_t at, char value) const;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

/// Path of the real model where tools/dev/fetch_model.py puts it; empty when it is not there.
std::string real_model_path();

}  // namespace jal::llm::test
