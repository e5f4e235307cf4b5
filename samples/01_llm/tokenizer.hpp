// Byte-level BPE from a model file's vocabulary and merges: text to token ids and back.
//
// What it is not: a chat template (chat.hpp), and no reader of other tokenizer models (SentencePiece is refused).
// Invariant: encode() never yields a control token, whatever the text says; only encode_parts() does, where its caller
// asks for one. Contract: metadata `tokenizer.ggml.*`, model `gpt2`, pre-tokenisation `smollm`; ids equal those of PyPI
// `tokenizers` (tests/reference).
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "samples/01_llm/gguf.hpp"
#include "samples/01_llm/pretokenizer.hpp"

namespace jal::llm {

using TokenId = std::int32_t;

/// A text that is not valid UTF-8; what() names the byte's offset and value.
class TextError : public std::runtime_error {
 public:
  TextError(std::size_t offset_bytes, const std::string& message)
      : std::runtime_error(message), offset_bytes_(offset_bytes) {}
  std::size_t offset_bytes() const noexcept { return offset_bytes_; }

 private:
  std::size_t offset_bytes_;
};

/// A stretch of a prompt: plain text, or exactly one control token by its text ("<|im_start|>").
struct PromptPart {
  std::string text;
  bool is_control = false;
};

class Tokenizer {
 public:
  /// Builds the tables. Throws GgufError: missing_tensor (a key is absent), unsupported (another model or
  /// pre-tokenisation), corrupt (counts differ, a token twice, a merge of unknown tokens, ids out of range).
  explicit Tokenizer(const GgufFile& file);

  std::size_t vocab_size() const { return vocab_.size(); }
  TokenId eos() const { return eos_; }
  /// Control token of that text, or -1.
  TokenId find_control(std::string_view text) const;
  /// Token as the vocabulary writes it (byte-level alphabet); id in [0, vocab_size()).
  std::string_view token_text(TokenId id) const { return vocab_[static_cast<std::size_t>(id)]; }

  /// Ids of a plain text. Bytes that the vocabulary has no token for are dropped, as `tokenizers` does. Throws
  /// TextError. Thread-safe.
  std::vector<TokenId> encode(std::string_view text) const;
  /// Ids of a rendered template: control parts become their token, plain parts between two of them are encoded as one
  /// text. Throws TextError (offset within the joined text) and GgufError(unsupported) for a control part that the
  /// vocabulary does not have. Thread-safe.
  std::vector<TokenId> encode_parts(std::span<const PromptPart> parts) const;

  /// The bytes that a token stands for: part of a character, perhaps. Control tokens stand for none. Throws
  /// std::out_of_range for an id outside the vocabulary. Valid as long as the tokenizer.
  std::string_view bytes_of(TokenId id) const;
  /// Text of a whole sequence; what is not UTF-8 becomes U+FFFD.
  std::string decode(std::span<const TokenId> ids) const;

 private:
  struct Merge {
    std::int32_t rank;
    TokenId result;
  };
  /// Open addressing over pairs of ids: one cache miss a look-up, and it is built in a millisecond.
  class MergeTable {
   public:
    void reserve(std::size_t count);
    void insert(TokenId left, TokenId right, Merge merge);
    const Merge* find(TokenId left, TokenId right) const;

   private:
    static constexpr std::uint64_t kEmpty = UINT64_MAX;
    std::size_t slot_of(std::uint64_t key) const;
    std::vector<std::uint64_t> keys_;
    std::vector<Merge> merges_;
    int shift_ = 0;
  };

  void read_vocabulary(const GgufFile& file);
  void read_merges(const GgufFile& file);
  void merge_piece(std::string_view piece, std::vector<TokenId>& out) const;

  std::vector<std::string_view> vocab_;  ///< into the mapped file, which must outlive the tokenizer
  std::vector<bool> is_control_;
  std::unordered_map<std::string_view, TokenId> controls_;
  std::vector<std::uint32_t> byte_ends_;  ///< token i's bytes are [byte_ends_[i], byte_ends_[i + 1]) of bytes_
  std::string bytes_;
  TokenId byte_token_[256] = {};  ///< -1 where the vocabulary has none
  MergeTable merges_;
  TokenId eos_ = -1;
  Pretokenizer pretokenizer_;
};

/// Turns ids into text as they come, holding back bytes until they form whole characters.
class StreamDecoder {
 public:
  /// `tokenizer` outlives the decoder.
  explicit StreamDecoder(const Tokenizer& tokenizer) : tokenizer_(tokenizer) {}
  /// Whole characters that are known now; often empty, never part of a character. Bytes that can form none become
  /// U+FFFD.
  std::string push(TokenId id);
  /// What was held back, as U+FFFD: call it at the end.
  std::string finish();

 private:
  const Tokenizer& tokenizer_;
  std::string held_;
};

}  // namespace jal::llm
