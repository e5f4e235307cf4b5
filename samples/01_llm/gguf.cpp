// The parser: one pass over the header with every length checked against what is left before it is used.
#include "samples/01_llm/gguf.hpp"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <system_error>

#include "samples/01_llm/utf8.hpp"

namespace jal::llm {
namespace {

static_assert(std::endian::native == std::endian::little, "GGUF files of this reader are little endian, read in place");

// Limits: far above any model of this kind, far below what would exhaust memory. ggml: keys to 65,535 bytes, names
// below 64, 4 dims.
constexpr std::uint64_t kMaxMetadata = 65536;
constexpr std::uint64_t kMaxTensors = 65536;
constexpr std::uint64_t kMaxKeyBytes = 65535;
constexpr std::uint64_t kMaxNameBytes = 63;
constexpr std::uint32_t kMaxDims = 4;
constexpr std::uint64_t kMaxDimension = std::uint64_t{1} << 32;
constexpr std::uint64_t kMaxElements = std::uint64_t{1} << 44;
constexpr std::uint64_t kMaxAlignment = 65536;
constexpr unsigned kMaxArrayNesting = 4;
constexpr std::uint32_t kVersion = 3;
constexpr const char* kAgain = "fetch or convert the file again";

struct BlockLayout {
  GgufTensorType type;
  const char* name;
  std::uint32_t elements;
  std::uint32_t bytes;
};
constexpr BlockLayout kLayouts[] = {
    {GgufTensorType::f32, "F32", 1, 4},       {GgufTensorType::f16, "F16", 1, 2},
    {GgufTensorType::q4_0, "Q4_0", 32, 18},   {GgufTensorType::q4_1, "Q4_1", 32, 20},
    {GgufTensorType::q8_0, "Q8_0", 32, 34},   {GgufTensorType::bf16, "BF16", 1, 2},
    {GgufTensorType::mxfp4, "MXFP4", 32, 17},
};

const BlockLayout* layout_of(std::uint32_t type) {
  for (const BlockLayout& layout : kLayouts) {
    if (static_cast<std::uint32_t>(layout.type) == type) return &layout;
  }
  return nullptr;
}

/// Bytes of a scalar in the file; 0 for strings and arrays.
std::uint64_t scalar_bytes(GgufType type) {
  switch (type) {
    case GgufType::uint8:
    case GgufType::int8:
    case GgufType::boolean:
      return 1;
    case GgufType::uint16:
    case GgufType::int16:
      return 2;
    case GgufType::uint32:
    case GgufType::int32:
    case GgufType::float32:
      return 4;
    case GgufType::uint64:
    case GgufType::int64:
    case GgufType::float64:
      return 8;
    case GgufType::string:
    case GgufType::array:
      break;
  }
  return 0;
}

template <typename T>
T load(const std::uint8_t* at) {
  T value;
  std::memcpy(&value, at, sizeof value);
  return value;
}

GgufValue load_scalar(GgufType type, const std::uint8_t* at) {
  switch (type) {
    case GgufType::uint8:
      return std::uint64_t{load<std::uint8_t>(at)};
    case GgufType::int8:
      return std::int64_t{load<std::int8_t>(at)};
    case GgufType::uint16:
      return std::uint64_t{load<std::uint16_t>(at)};
    case GgufType::int16:
      return std::int64_t{load<std::int16_t>(at)};
    case GgufType::uint32:
      return std::uint64_t{load<std::uint32_t>(at)};
    case GgufType::int32:
      return std::int64_t{load<std::int32_t>(at)};
    case GgufType::float32:
      return double{load<float>(at)};
    case GgufType::boolean:
      return *at != 0;
    case GgufType::uint64:
      return load<std::uint64_t>(at);
    case GgufType::int64:
      return load<std::int64_t>(at);
    case GgufType::float64:
      return load<double>(at);
    case GgufType::string:
    case GgufType::array:
      break;
  }
  return std::uint64_t{0};
}

}  // namespace

std::string_view name_of(GgufTensorType type) {
  const BlockLayout* layout = layout_of(static_cast<std::uint32_t>(type));
  return layout != nullptr ? layout->name : "unknown";
}

GgufValue GgufArray::scalar(std::uint64_t i) const {
  return load_scalar(element, packed.data() + i * scalar_bytes(element));
}

/// Reads one file; lives only during GgufFile::open.
class GgufParser {
 public:
  explicit GgufParser(GgufFile& file) : file_(file), bytes_(file.bytes()) {}

  void run() {
    read_header();
    for (std::uint64_t i = 0; i < metadata_count_; ++i) read_metadata(i);
    read_alignment();
    file_.tensors_.reserve(static_cast<std::size_t>(tensor_count_));
    offsets_.reserve(static_cast<std::size_t>(tensor_count_));
    for (std::uint64_t i = 0; i < tensor_count_; ++i) read_tensor(i);
    place_tensors();
  }

 private:
  [[noreturn]] void fail(GgufErrorCode code, const std::string& message) const {
    throw GgufError(code, fmt::format("{}: {}; {}", file_.path_, message, kAgain));
  }

  std::uint64_t left() const { return bytes_.size() - at_; }

  /// Advances over size_bytes bytes and returns where they begin.
  const std::uint8_t* take(std::uint64_t size_bytes, const std::string& what) {
    if (size_bytes > left()) {
      fail(GgufErrorCode::truncated, fmt::format("{} needs {} bytes at offset {}, but the file ends at {}", what,
                                                 size_bytes, at_, bytes_.size()));
    }
    const std::uint8_t* begin = bytes_.data() + at_;
    at_ += static_cast<std::size_t>(size_bytes);
    return begin;
  }

  template <typename T>
  T take_value(const std::string& what) {
    return load<T>(take(sizeof(T), what));
  }

  std::string_view take_string(std::uint64_t max_bytes, const std::string& what) {
    const auto size = take_value<std::uint64_t>(what);
    if (size > max_bytes && size <= left()) {
      fail(GgufErrorCode::too_large,
           fmt::format("{} at offset {} has {} bytes, at most {} are allowed", what, at_, size, max_bytes));
    }
    const std::size_t begin = at_;
    const std::string_view text(reinterpret_cast<const char*>(take(size, what)), static_cast<std::size_t>(size));
    const std::size_t bad = utf8_first_invalid(text);
    if (bad != std::string_view::npos) {
      fail(GgufErrorCode::corrupt, fmt::format("{} is not valid UTF-8 at offset {}", what, begin + bad));
    }
    return text;
  }

  /// A key or tensor name: not empty, no control characters.
  std::string_view take_name(std::uint64_t max_bytes, const std::string& what) {
    const std::size_t begin = at_;
    const std::string_view name = take_string(max_bytes, what);
    const auto control = [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; };
    if (name.empty() || std::any_of(name.begin(), name.end(), control)) {
      fail(GgufErrorCode::corrupt,
           fmt::format("{} at offset {} is {}", what, begin, name.empty() ? "empty" : "not printable"));
    }
    return name;
  }

  GgufType take_type(const std::string& what) {
    const auto type = take_value<std::uint32_t>(what);
    if (type > static_cast<std::uint32_t>(GgufType::float64)) {
      fail(GgufErrorCode::unknown_type, fmt::format("{} has metadata type {}, known are 0 to 12", what, type));
    }
    return static_cast<GgufType>(type);
  }

  void check_bools(std::span<const std::uint8_t> values, const std::string& what) const {
    for (const std::uint8_t value : values) {
      if (value > 1) fail(GgufErrorCode::corrupt, fmt::format("{} holds the bool {}, must be 0 or 1", what, value));
    }
  }

  void read_header() {
    const std::uint8_t* magic = take(4, "the magic");
    if (std::memcmp(magic, "GGUF", 4) != 0) {
      fail(GgufErrorCode::corrupt, fmt::format("starts with bytes {:02x} {:02x} {:02x} {:02x}, a GGUF file with 'GGUF'",
                                               magic[0], magic[1], magic[2], magic[3]));
    }
    const auto version = take_value<std::uint32_t>("the version");
    if (version != kVersion) {
      const bool swapped = version == 0x03000000u;
      fail(GgufErrorCode::unsupported, fmt::format("is GGUF version {}{}, this reader knows version {}", version,
                                                   swapped ? " (big endian)" : "", kVersion));
    }
    tensor_count_ = take_value<std::uint64_t>("the tensor count");
    metadata_count_ = take_value<std::uint64_t>("the metadata count");
    if (tensor_count_ > kMaxTensors) {
      fail(GgufErrorCode::too_large,
           fmt::format("claims {} tensors, at most {} are allowed", tensor_count_, kMaxTensors));
    }
    if (metadata_count_ > kMaxMetadata) {
      fail(GgufErrorCode::too_large,
           fmt::format("claims {} metadata entries, at most {} are allowed", metadata_count_, kMaxMetadata));
    }
  }

  GgufArray take_array(const std::string& what, unsigned nesting) {
    if (nesting == kMaxArrayNesting) {
      fail(GgufErrorCode::too_large, fmt::format("{} nests arrays more than {} deep", what, kMaxArrayNesting));
    }
    GgufArray array;
    array.element = take_type(what);
    array.count = take_value<std::uint64_t>(what);
    // Every element takes bytes in the file: a string its length, an array its type and count. So the count is bounded
    // before use.
    const std::uint64_t scalar = scalar_bytes(array.element);
    const std::uint64_t least = scalar != 0 ? scalar : array.element == GgufType::string ? 8 : 12;
    if (array.count > left() / least) {
      fail(GgufErrorCode::truncated, fmt::format("{} claims {} elements at offset {}, but only {} bytes are left", what,
                                                 array.count, at_, left()));
    }
    if (scalar != 0) {
      array.packed = {take(array.count * scalar, what), static_cast<std::size_t>(array.count * scalar)};
      if (array.element == GgufType::boolean) check_bools(array.packed, what);
    } else if (array.element == GgufType::string) {
      array.strings.reserve(static_cast<std::size_t>(array.count));
      for (std::uint64_t i = 0; i < array.count; ++i) array.strings.push_back(take_string(bytes_.size(), what));
    } else {
      for (std::uint64_t i = 0; i < array.count; ++i) array.arrays.push_back(take_array(what, nesting + 1));
    }
    return array;
  }

  GgufValue take_metadata_value(GgufType type, const std::string& what) {
    if (type == GgufType::string) return take_string(bytes_.size(), what);
    if (type == GgufType::array) return take_array(what, 0);
    const std::uint64_t size = scalar_bytes(type);
    const std::uint8_t* at = take(size, what);
    if (type == GgufType::boolean) check_bools({at, 1}, what);
    return load_scalar(type, at);
  }

  void read_metadata(std::uint64_t index) {
    const std::string_view key = take_name(kMaxKeyBytes, fmt::format("key {} of the metadata", index));
    const std::string what = fmt::format("metadata '{}'", key);
    const GgufType type = take_type(what);
    if (!file_.metadata_.try_emplace(key, take_metadata_value(type, what)).second) {
      fail(GgufErrorCode::corrupt, fmt::format("{} stands twice in the file", what));
    }
  }

  void read_alignment() {
    alignment_ = file_.find_unsigned("general.alignment").value_or(32);
    if (alignment_ < 8 || alignment_ > kMaxAlignment || !std::has_single_bit(alignment_)) {
      fail(GgufErrorCode::corrupt,
           fmt::format("general.alignment is {}, must be a power of two from 8 to {}", alignment_, kMaxAlignment));
    }
  }

  void read_tensor(std::uint64_t index) {
    GgufTensor tensor;
    tensor.name = take_name(kMaxNameBytes, fmt::format("name of tensor {}", index));
    const std::string what = fmt::format("tensor '{}'", tensor.name);
    tensor.n_dims = take_value<std::uint32_t>(what);
    if (tensor.n_dims == 0 || tensor.n_dims > kMaxDims) {
      fail(GgufErrorCode::too_large,
           fmt::format("{} has {} dimensions, 1 to {} are allowed", what, tensor.n_dims, kMaxDims));
    }
    std::uint64_t elements = 1;
    for (std::uint32_t d = 0; d < tensor.n_dims; ++d) {
      const auto size = take_value<std::uint64_t>(what);
      if (size == 0 || size > kMaxDimension || elements > kMaxElements / size) {
        fail(GgufErrorCode::too_large,
             fmt::format("{} has size {} in dimension {}; a dimension holds 1 to {}, a tensor at most {} elements",
                         what, size, d, kMaxDimension, kMaxElements));
      }
      elements *= size;
      tensor.dims[d] = size;
    }
    const auto type = take_value<std::uint32_t>(what);
    const auto offset = take_value<std::uint64_t>(what);
    const BlockLayout* layout = layout_of(type);
    if (layout == nullptr) {
      fail(GgufErrorCode::unknown_type,
           fmt::format(
               "{} has type {}, known are F32 (0), F16 (1), Q4_0 (2), Q4_1 (3), Q8_0 (8), BF16 (30) and MXFP4 (39)",
               what, type));
    }
    tensor.type = layout->type;
    if (tensor.dims[0] % layout->elements != 0) {
      fail(GgufErrorCode::corrupt, fmt::format("{} has rows of {} elements, {} packs them in blocks of {}", what,
                                               tensor.dims[0], layout->name, layout->elements));
    }
    if (offset % alignment_ != 0) {
      fail(GgufErrorCode::corrupt,
           fmt::format("{} lies at offset {}, not a multiple of the file's alignment {}", what, offset, alignment_));
    }
    const std::uint64_t size_bytes = elements / layout->elements * layout->bytes;
    if (!file_.tensor_index_.try_emplace(tensor.name, file_.tensors_.size()).second) {
      fail(GgufErrorCode::corrupt, fmt::format("{} stands twice in the file", what));
    }
    file_.tensors_.push_back(tensor);
    offsets_.push_back({offset, size_bytes});
  }

  /// Gives every tensor its bytes once the start of the data section is known.
  void place_tensors() {
    const std::uint64_t data = (std::uint64_t{at_} + alignment_ - 1) / alignment_ * alignment_;
    std::vector<std::size_t> order(file_.tensors_.size());
    for (std::size_t i = 0; i < order.size(); ++i) {
      order[i] = i;
      GgufTensor& tensor = file_.tensors_[i];
      const auto [offset, size_bytes] = offsets_[i];
      const std::uint64_t room = bytes_.size() > data ? bytes_.size() - data : 0;
      if (offset > room || size_bytes > room - offset) {
        fail(GgufErrorCode::truncated, fmt::format("tensor '{}' needs {} bytes at {} + {}, but the file ends at {}",
                                                   tensor.name, size_bytes, data, offset, bytes_.size()));
      }
      tensor.bytes = bytes_.subspan(static_cast<std::size_t>(data + offset), static_cast<std::size_t>(size_bytes));
    }
    std::sort(order.begin(), order.end(),
              [&](std::size_t a, std::size_t b) { return offsets_[a].offset < offsets_[b].offset; });
    for (std::size_t i = 1; i < order.size(); ++i) {
      const Place& before = offsets_[order[i - 1]];
      if (before.offset + before.size_bytes > offsets_[order[i]].offset) {
        fail(GgufErrorCode::corrupt,
             fmt::format("tensors '{}' and '{}' overlap at data offset {}", file_.tensors_[order[i - 1]].name,
                         file_.tensors_[order[i]].name, offsets_[order[i]].offset));
      }
    }
  }

  struct Place {
    std::uint64_t offset;
    std::uint64_t size_bytes;
  };
  GgufFile& file_;
  std::span<const std::uint8_t> bytes_;
  std::size_t at_ = 0;
  std::uint64_t tensor_count_ = 0;
  std::uint64_t metadata_count_ = 0;
  std::uint64_t alignment_ = 32;
  std::vector<Place> offsets_;
};

GgufFile GgufFile::open(const std::string& path) {
  GgufFile file;
  file.path_ = path;
  try {
    file.file_ = MappedFile(path);
  } catch (const std::system_error& error) {
    throw GgufError(GgufErrorCode::cannot_read,
                    fmt::format("cannot read the model: {}; check the path and its permissions", error.what()));
  }
  GgufParser(file).run();
  return file;
}

const GgufValue* GgufFile::find(std::string_view key) const {
  const auto it = metadata_.find(key);
  return it == metadata_.end() ? nullptr : &it->second;
}

namespace {

[[noreturn]] void wrong_type(const GgufFile& file, std::string_view key, const char* wanted) {
  throw GgufError(GgufErrorCode::corrupt,
                  fmt::format("{}: metadata '{}' is not {}; {}", file.path(), key, wanted, kAgain));
}

}  // namespace

std::optional<std::uint64_t> GgufFile::find_unsigned(std::string_view key) const {
  const GgufValue* value = find(key);
  if (value == nullptr) return std::nullopt;
  if (const auto* number = std::get_if<std::uint64_t>(value)) return *number;
  if (const auto* number = std::get_if<std::int64_t>(value); number != nullptr && *number >= 0)
    return static_cast<std::uint64_t>(*number);
  wrong_type(*this, key, "an integer of at least 0");
}

std::optional<double> GgufFile::find_number(std::string_view key) const {
  const GgufValue* value = find(key);
  if (value == nullptr) return std::nullopt;
  if (const auto* number = std::get_if<double>(value)) return *number;
  wrong_type(*this, key, "a floating-point number");
}

std::optional<bool> GgufFile::find_bool(std::string_view key) const {
  const GgufValue* value = find(key);
  if (value == nullptr) return std::nullopt;
  if (const auto* flag = std::get_if<bool>(value)) return *flag;
  wrong_type(*this, key, "a bool");
}

std::optional<std::string_view> GgufFile::find_string(std::string_view key) const {
  const GgufValue* value = find(key);
  if (value == nullptr) return std::nullopt;
  if (const auto* text = std::get_if<std::string_view>(value)) return *text;
  wrong_type(*this, key, "a string");
}

const GgufArray* GgufFile::find_array(std::string_view key, GgufType element) const {
  const GgufValue* value = find(key);
  if (value == nullptr) return nullptr;
  const auto* array = std::get_if<GgufArray>(value);
  if (array == nullptr || array->element != element)
    wrong_type(*this, key, element == GgufType::string ? "an array of strings" : "an array of the type it needs");
  return array;
}

const GgufTensor* GgufFile::find_tensor(std::string_view name) const {
  const auto it = tensor_index_.find(name);
  return it == tensor_index_.end() ? nullptr : &tensors_[it->second];
}

}  // namespace jal::llm
