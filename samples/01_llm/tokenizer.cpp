// Tables from the file, and merging by rank.
#include "samples/01_llm/tokenizer.hpp"

#include <spdlog/fmt/fmt.h>
#define XXH_INLINE_ALL
#include <xxhash.h>

#include <algorithm>
#include <array>
#include <bit>
#include <functional>
#include <queue>

#include "samples/01_llm/utf8.hpp"

namespace jal::llm {
namespace {

constexpr std::uint64_t kMaxVocab = 1u << 24;
constexpr std::int64_t kControlType = 3;
constexpr std::string_view kReplacement = "\xef\xbf\xbd";

[[noreturn]] void fail(const GgufFile& file, GgufErrorCode code, const std::string& message) {
  throw GgufError(code, fmt::format("{}: {}", file.path(), message));
}

/// GPT-2's alphabet: printable Latin-1 bytes stand for themselves, the others for U+0100 and up in their order. 324
/// code points.
constexpr std::array<std::int16_t, 324> byte_of_character() {
  std::array<std::int16_t, 324> bytes{};
  for (auto& byte : bytes) byte = -1;
  std::size_t next = 256;
  for (std::int16_t b = 0; b < 256; ++b) {
    const bool itself = (b >= 33 && b <= 126) || (b >= 161 && b != 173);
    bytes[itself ? static_cast<std::size_t>(b) : next++] = b;
  }
  return bytes;
}
constexpr auto kByteOfCharacter = byte_of_character();

/// Appends the bytes that a token's text stands for; text outside the alphabet stands for itself.
void append_bytes(std::string_view token, std::string& out) {
  const std::size_t before = out.size();
  for (std::size_t i = 0; i < token.size();) {
    const auto lead = static_cast<unsigned char>(token[i]);
    // The alphabet lies within one and two bytes of UTF-8; the file's strings are valid UTF-8.
    const std::size_t length = lead < 0x80 ? 1 : lead < 0xe0 ? 2 : 3;
    const unsigned character = length == 1   ? lead
                               : length == 2 ? (lead & 0x1fu) << 6 | (static_cast<unsigned char>(token[i + 1]) & 0x3fu)
                                             : 0xffffu;
    if (character >= kByteOfCharacter.size() || kByteOfCharacter[character] < 0) {
      out.resize(before);
      out += token;
      return;
    }
    out.push_back(static_cast<char>(static_cast<unsigned char>(kByteOfCharacter[character])));
    i += length;
  }
}

/// Token ids by text while the merges are read: open addressing, most misses decided by a tag beside the id.
class TokenIndex {
 public:
  explicit TokenIndex(const std::vector<std::string_view>& vocab)
      : vocab_(vocab), slots_(std::bit_ceil(2 * vocab.size() + 2), Slot{0, -1}) {}

  /// False when a token of that text is there already.
  bool insert(TokenId id) {
    Slot* slot = slot_of(vocab_[static_cast<std::size_t>(id)]);
    if (slot->id >= 0) return false;
    slot->id = id;
    return true;
  }
  /// Id, or -1.
  TokenId find(std::string_view text) { return slot_of(text)->id; }

 private:
  struct Slot {
    std::uint32_t tag;
    TokenId id;
  };
  /// The slot of that text, or the free one where it belongs, with its tag set.
  Slot* slot_of(std::string_view text) {
    const std::uint64_t hash = XXH3_64bits(text.data(), text.size());
    const auto tag = static_cast<std::uint32_t>(hash >> 32);
    for (std::size_t i = hash & (slots_.size() - 1);; i = (i + 1) & (slots_.size() - 1)) {
      Slot& slot = slots_[i];
      if (slot.id < 0) {
        slot.tag = tag;
        return &slot;
      }
      if (slot.tag == tag && vocab_[static_cast<std::size_t>(slot.id)] == text) return &slot;
    }
  }
  const std::vector<std::string_view>& vocab_;
  std::vector<Slot> slots_;
};

const GgufArray& required_array(const GgufFile& file, std::string_view key, GgufType element) {
  const GgufArray* array = file.find_array(key, element);
  if (array == nullptr)
    fail(file, GgufErrorCode::missing_tensor,
         fmt::format("has no metadata '{}', which its tokenizer needs; convert it again", key));
  return *array;
}

std::vector<PromptPart> joined(std::span<const PromptPart> parts) {
  std::vector<PromptPart> out;
  for (const PromptPart& part : parts) {
    if (!part.is_control && !out.empty() && !out.back().is_control) {
      out.back().text += part.text;
    } else {
      out.push_back(part);
    }
  }
  return out;
}

}  // namespace

void Tokenizer::MergeTable::reserve(std::size_t count) {
  const std::size_t slots = std::bit_ceil(2 * count + 2);
  shift_ = 64 - std::countr_zero(slots);
  keys_.assign(slots, kEmpty);
  merges_.resize(slots);
}

std::size_t Tokenizer::MergeTable::slot_of(std::uint64_t key) const {
  // Fibonacci hashing: the high bits of a product with 2^64 / golden ratio.
  std::size_t slot = static_cast<std::size_t>((key * 0x9e3779b97f4a7c15u) >> shift_);
  while (keys_[slot] != kEmpty && keys_[slot] != key) slot = (slot + 1) & (keys_.size() - 1);
  return slot;
}

void Tokenizer::MergeTable::insert(TokenId left, TokenId right, Merge merge) {
  const std::uint64_t key = static_cast<std::uint64_t>(left) << 32 | static_cast<std::uint32_t>(right);
  const std::size_t slot = slot_of(key);
  keys_[slot] = key;
  merges_[slot] = merge;
}

const Tokenizer::Merge* Tokenizer::MergeTable::find(TokenId left, TokenId right) const {
  const std::uint64_t key = static_cast<std::uint64_t>(left) << 32 | static_cast<std::uint32_t>(right);
  const std::size_t slot = slot_of(key);
  return keys_[slot] == key ? &merges_[slot] : nullptr;
}

Tokenizer::Tokenizer(const GgufFile& file) {
  const auto model = file.find_string("tokenizer.ggml.model");
  if (!model) fail(file, GgufErrorCode::missing_tensor, "has no metadata 'tokenizer.ggml.model'; convert it again");
  if (*model != "gpt2") {
    fail(file, GgufErrorCode::unsupported,
         fmt::format("has a tokenizer of model '{}', this program knows 'gpt2' (byte-level BPE); choose another model",
                     *model));
  }
  const std::string_view pre = file.find_string("tokenizer.ggml.pre").value_or("default");
  if (pre != "smollm") {
    fail(file, GgufErrorCode::unsupported,
         fmt::format("has the pre-tokenisation '{}', this program knows 'smollm'; choose another model", pre));
  }
  if (file.find_bool("tokenizer.ggml.add_bos_token").value_or(false) ||
      file.find_bool("tokenizer.ggml.add_space_prefix").value_or(false)) {
    fail(file, GgufErrorCode::unsupported,
         "adds a BOS token or a space before every text, which this program does not; choose another model");
  }
  read_vocabulary(file);
  read_merges(file);
  const std::uint64_t eos = file.find_unsigned("tokenizer.ggml.eos_token_id").value_or(UINT64_MAX);
  if (eos >= vocab_.size()) {
    fail(file, GgufErrorCode::corrupt,
         fmt::format("has the EOS token {}, its vocabulary {} tokens; fetch or convert the file again",
                     static_cast<std::int64_t>(eos), vocab_.size()));
  }
  eos_ = static_cast<TokenId>(eos);
}

void Tokenizer::read_vocabulary(const GgufFile& file) {
  const GgufArray& tokens = required_array(file, "tokenizer.ggml.tokens", GgufType::string);
  const GgufArray& types = required_array(file, "tokenizer.ggml.token_type", GgufType::int32);
  if (tokens.count == 0 || tokens.count > kMaxVocab || types.count != tokens.count) {
    fail(file, GgufErrorCode::corrupt,
         fmt::format("has {} tokens (1 to {} are allowed) and {} token types; fetch or convert the file again",
                     tokens.count, kMaxVocab, types.count));
  }
  const GgufTensor* embedding = file.find_tensor("token_embd.weight");
  if (embedding != nullptr && embedding->rows() != tokens.count) {
    fail(file, GgufErrorCode::corrupt,
         fmt::format("has {} tokens, but 'token_embd.weight' has {} rows; fetch or convert the file again",
                     tokens.count, embedding->rows()));
  }
  vocab_ = tokens.strings;
  is_control_.assign(vocab_.size(), false);
  bytes_.reserve(8 * vocab_.size());
  byte_ends_.reserve(vocab_.size() + 1);
  byte_ends_.push_back(0);
  std::fill(std::begin(byte_token_), std::end(byte_token_), -1);
  for (std::size_t i = 0; i < vocab_.size(); ++i) {
    const auto id = static_cast<TokenId>(i);
    is_control_[i] = std::get<std::int64_t>(types.scalar(i)) == kControlType;
    if (is_control_[i]) {
      if (!controls_.try_emplace(vocab_[i], id).second) {
        fail(file, GgufErrorCode::corrupt,
             fmt::format("has the control token '{}' twice; fetch or convert the file again", vocab_[i]));
      }
    } else {
      const std::size_t begin = bytes_.size();
      append_bytes(vocab_[i], bytes_);
      if (bytes_.size() == begin + 1 && vocab_[i].size() <= 2)
        byte_token_[static_cast<unsigned char>(bytes_[begin])] = id;
    }
    byte_ends_.push_back(static_cast<std::uint32_t>(bytes_.size()));
  }
}

void Tokenizer::read_merges(const GgufFile& file) {
  const GgufArray& merges = required_array(file, "tokenizer.ggml.merges", GgufType::string);
  TokenIndex ids(vocab_);
  for (std::size_t i = 0; i < vocab_.size(); ++i) {
    if (!is_control_[i] && !ids.insert(static_cast<TokenId>(i))) {
      fail(file, GgufErrorCode::corrupt,
           fmt::format("has the token '{}' twice; fetch or convert the file again", vocab_[i]));
    }
  }
  merges_.reserve(merges.strings.size());
  std::string together;
  for (std::size_t rank = 0; rank < merges.strings.size(); ++rank) {
    const std::string_view line = merges.strings[rank];
    const std::size_t space = line.find(' ');
    const std::string_view left = line.substr(0, space);
    const std::string_view right = space == std::string_view::npos ? std::string_view() : line.substr(space + 1);
    together.assign(left).append(right);
    const TokenId l = ids.find(left), r = ids.find(right), both = ids.find(together);
    if (l < 0 || r < 0 || both < 0) {
      fail(
          file, GgufErrorCode::corrupt,
          fmt::format("merge {} ('{}') joins tokens that the vocabulary does not have; fetch or convert the file again",
                      rank, line));
    }
    merges_.insert(l, r, {static_cast<std::int32_t>(rank), both});
  }
}

TokenId Tokenizer::find_control(std::string_view text) const {
  const auto it = controls_.find(text);
  return it == controls_.end() ? -1 : it->second;
}

void Tokenizer::merge_piece(std::string_view piece, std::vector<TokenId>& out) const {
  struct Symbol {
    TokenId id;
    std::int32_t before;
    std::int32_t after;  ///< -1 at the ends; a symbol that was merged into its left neighbour has id -1
  };
  thread_local std::vector<Symbol> symbols;
  symbols.clear();
  for (const char c : piece) {
    const TokenId id = byte_token_[static_cast<unsigned char>(c)];
    if (id < 0) continue;
    const auto i = static_cast<std::int32_t>(symbols.size());
    symbols.push_back({id, i - 1, i + 1});
  }
  if (symbols.empty()) return;
  symbols.back().after = -1;

  /// A pair that may merge. Stale ones stay in the queue and are recognised by their ids.
  struct Candidate {
    std::int32_t rank;
    std::int32_t at;
    TokenId left, right, result;
    bool operator>(const Candidate& other) const { return rank != other.rank ? rank > other.rank : at > other.at; }
  };
  // A heap, not a scan: a word of a hundred thousand letters must not take its square.
  std::vector<Candidate> storage;
  storage.reserve(symbols.size());
  std::priority_queue<Candidate, std::vector<Candidate>, std::greater<>> queue(std::greater<>(), std::move(storage));
  const auto consider = [&](std::int32_t at) {
    const Symbol& left = symbols[static_cast<std::size_t>(at)];
    if (left.after < 0) return;
    const TokenId right = symbols[static_cast<std::size_t>(left.after)].id;
    if (const Merge* merge = merges_.find(left.id, right)) queue.push({merge->rank, at, left.id, right, merge->result});
  };
  for (std::int32_t i = 0; i + 1 < static_cast<std::int32_t>(symbols.size()); ++i) consider(i);
  while (!queue.empty()) {
    const Candidate best = queue.top();
    queue.pop();
    Symbol& left = symbols[static_cast<std::size_t>(best.at)];
    if (left.id != best.left || left.after < 0 || symbols[static_cast<std::size_t>(left.after)].id != best.right)
      continue;
    Symbol& right = symbols[static_cast<std::size_t>(left.after)];
    left.id = best.result;
    left.after = right.after;
    right.id = -1;
    if (left.after >= 0) symbols[static_cast<std::size_t>(left.after)].before = best.at;
    if (left.before >= 0) consider(left.before);
    consider(best.at);
  }
  for (std::int32_t i = 0; i >= 0; i = symbols[static_cast<std::size_t>(i)].after)
    out.push_back(symbols[static_cast<std::size_t>(i)].id);
}

std::vector<TokenId> Tokenizer::encode(std::string_view text) const {
  const std::size_t bad = utf8_first_invalid(text);
  if (bad != std::string_view::npos) {
    throw TextError(bad, fmt::format("the text is not valid UTF-8 at byte {} (0x{:02x}); convert it to UTF-8", bad,
                                     static_cast<unsigned char>(text[bad])));
  }
  std::vector<TokenId> ids;
  ids.reserve(text.size() / 3 + 1);
  for (const std::string_view piece : pretokenizer_.split(text)) merge_piece(piece, ids);
  return ids;
}

std::vector<TokenId> Tokenizer::encode_parts(std::span<const PromptPart> parts) const {
  std::vector<TokenId> ids;
  for (const PromptPart& part : joined(parts)) {
    if (part.is_control) {
      const TokenId id = find_control(part.text);
      if (id < 0)
        throw GgufError(
            GgufErrorCode::unsupported,
            fmt::format("the vocabulary has no control token '{}', which the chat template uses; choose another model",
                        part.text));
      ids.push_back(id);
    } else {
      const std::vector<TokenId> more = encode(part.text);
      ids.insert(ids.end(), more.begin(), more.end());
    }
  }
  return ids;
}

std::string_view Tokenizer::bytes_of(TokenId id) const {
  if (id < 0 || static_cast<std::size_t>(id) >= vocab_.size()) {
    throw std::out_of_range(fmt::format("token id {} is outside the vocabulary of {}", id, vocab_.size()));
  }
  const auto i = static_cast<std::size_t>(id);
  return std::string_view(bytes_).substr(byte_ends_[i], byte_ends_[i + 1] - byte_ends_[i]);
}

std::string Tokenizer::decode(std::span<const TokenId> ids) const {
  StreamDecoder decoder(*this);
  std::string text;
  for (const TokenId id : ids) text += decoder.push(id);
  return text + decoder.finish();
}

std::string StreamDecoder::push(TokenId id) {
  held_ += tokenizer_.bytes_of(id);
  std::string out;
  std::string_view rest = held_;
  while (!rest.empty()) {
    const Utf8Step step = utf8_step(rest);
    if (step.kind == Utf8Step::Kind::incomplete) break;
    out += step.kind == Utf8Step::Kind::character ? rest.substr(0, step.size_bytes) : kReplacement;
    rest.remove_prefix(step.size_bytes);
  }
  held_.erase(0, held_.size() - rest.size());
  return out;
}

std::string StreamDecoder::finish() {
  // An incomplete character is one maximal part, so one replacement.
  const bool any = !held_.empty();
  held_.clear();
  return any ? std::string(kReplacement) : std::string();
}

}  // namespace jal::llm
