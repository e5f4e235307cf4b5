// UTF-8 as the Unicode standard (chapter 3.9, table 3-7) defines it: validity, and the length of a sequence.
//
// What it is not: normalisation or character classes (PCRE2 knows those).
// Invariant: overlong forms, surrogates and code points above U+10FFFF are invalid everywhere.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace jal::llm {

/// What begins at the front of a text.
struct Utf8Step {
  enum class Kind { character, invalid, incomplete };
  Kind kind;
  /// Bytes of the character, of the maximal invalid part (at least 1), or of the incomplete tail (all that is left).
  std::size_t size_bytes;
};

/// Looks at the front of a non-empty text. incomplete: the text ends inside a character that more bytes could
/// complete.
Utf8Step utf8_step(std::string_view text);

/// Byte offset of the first byte that is not part of a valid character; std::string_view::npos when all is valid.
std::size_t utf8_first_invalid(std::string_view text);

/// Appends one code point (at most U+10FFFF, no surrogate).
void utf8_append(std::string& out, char32_t code_point);

}  // namespace jal::llm
