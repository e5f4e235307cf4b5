// A GGUF version 3 file, mapped and checked: metadata, tensor table, rows as FP32.
//
// What it is not: a model (model_config.hpp gives the tensors their meaning) and not a writer.
// Invariant: after open() every tensor's bytes lie inside the file, aligned and without overlap, and every name and
// string is valid UTF-8; nothing in the file can make a later call read outside it. All views point into the mapping.
// Contract: the GGUF specification of ggml, version 3, little endian; block layouts of ggml's quantised types.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <variant>
#include <vector>

#include "samples/01_llm/gguf_error.hpp"
#include "samples/01_llm/mapped_file.hpp"

namespace jal::llm {

/// Metadata types, numbered as in the file.
enum class GgufType : std::uint32_t {
  uint8 = 0,
  int8 = 1,
  uint16 = 2,
  int16 = 3,
  uint32 = 4,
  int32 = 5,
  float32 = 6,
  boolean = 7,
  string = 8,
  array = 9,
  uint64 = 10,
  int64 = 11,
  float64 = 12,
};

/// Element types of tensors that this reader decodes, numbered as in the file.
enum class GgufTensorType : std::uint32_t {
  f32 = 0,
  f16 = 1,
  q4_0 = 2,
  q4_1 = 3,
  q8_0 = 8,
  bf16 = 30,
  mxfp4 = 39,
};

/// Name as people write it: "Q4_1".
std::string_view name_of(GgufTensorType type);

struct GgufArray;
/// Integers of every width become 64 bits wide, floats become double; strings are views into the file.
using GgufValue = std::variant<std::uint64_t, std::int64_t, double, bool, std::string_view, GgufArray>;

/// An array of metadata. Exactly one of the three holders is used, by the element type.
struct GgufArray {
  GgufType element = GgufType::uint8;
  std::uint64_t count = 0;
  std::span<const std::uint8_t> packed;   ///< scalars: little-endian elements as in the file
  std::vector<std::string_view> strings;  ///< element string
  std::vector<GgufArray> arrays;          ///< element array

  /// Scalar element i as a value; i < count and the element is a scalar.
  GgufValue scalar(std::uint64_t i) const;
};

struct GgufTensor {
  std::string_view name;
  GgufTensorType type = GgufTensorType::f32;
  std::uint32_t n_dims = 0;
  std::array<std::uint64_t, 4> dims{1, 1, 1, 1};  ///< dims[0] runs fastest: the length of a row
  std::span<const std::uint8_t> bytes;

  std::uint64_t row_elements() const { return dims[0]; }
  std::uint64_t rows() const { return dims[1] * dims[2] * dims[3]; }
  std::size_t row_bytes() const { return bytes.size() / static_cast<std::size_t>(rows()); }
};

class GgufFile {
 public:
  /// Maps and checks the file. Throws GgufError (cannot_read, truncated, corrupt, unknown_type, too_large,
  /// unsupported).
  static GgufFile open(const std::string& path);

  const std::string& path() const { return path_; }
  std::span<const std::uint8_t> bytes() const { return file_.bytes(); }

  /// Metadata by key, nullptr when absent.
  const GgufValue* find(std::string_view key) const;
  /// Metadata of a type, or nothing when the key is absent. A key with another type throws GgufError(corrupt) that
  /// names both.
  std::optional<std::uint64_t> find_unsigned(std::string_view key) const;
  std::optional<double> find_number(std::string_view key) const;
  std::optional<bool> find_bool(std::string_view key) const;
  std::optional<std::string_view> find_string(std::string_view key) const;
  const GgufArray* find_array(std::string_view key, GgufType element) const;
  std::size_t metadata_count() const { return metadata_.size(); }

  /// Tensors in the order of the file, and one by name (nullptr when absent).
  std::span<const GgufTensor> tensors() const { return tensors_; }
  const GgufTensor* find_tensor(std::string_view name) const;

 private:
  friend class GgufParser;
  std::string path_;
  MappedFile file_;
  std::unordered_map<std::string_view, GgufValue> metadata_;
  std::vector<GgufTensor> tensors_;
  std::unordered_map<std::string_view, std::size_t> tensor_index_;
};

/// Row `row` (below rows()) of a tensor as FP32 into `out`, which has row_elements() elements. Exact for F32, F16, BF16
/// and MXFP4 (a value beyond FP32 becomes infinite, scale 255 gives NaN); Q8_0, Q4_0 and Q4_1 as ggml computes them:
/// code * d (+ m), each rounded. Thread-safe.
void dequantize_row(const GgufTensor& tensor, std::uint64_t row, std::span<float> out);

}  // namespace jal::llm
