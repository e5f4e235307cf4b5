// Cuts a text into the pieces within which byte pairs may merge.
//
// What it is not: a tokenizer. Invariant: the pieces in order are the text, byte for byte; none is empty.
// Contract: pre-tokenisation `smollm`: each numeric character alone, then the GPT-2 pattern on what lies between.
#pragma once
#include <cstddef>
#include <memory>
#include <string_view>
#include <vector>

namespace jal::llm {

class Pretokenizer {
 public:
  /// Compiles the pattern (about 1 ms, PCRE2 with its just-in-time compiler where it has one). Throws
  /// std::runtime_error when it cannot.
  Pretokenizer();
  ~Pretokenizer();
  Pretokenizer(Pretokenizer&&) noexcept;
  Pretokenizer& operator=(Pretokenizer&&) noexcept;

  /// The pieces of `text`, which must be valid UTF-8 (the caller has checked). Views into `text`. Thread-safe.
  std::vector<std::string_view> split(std::string_view text) const;

 private:
  struct Pattern;
  std::unique_ptr<Pattern> pattern_;
};

}  // namespace jal::llm
