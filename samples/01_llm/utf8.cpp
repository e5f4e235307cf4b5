// Table 3-7 of the Unicode standard, written as ranges of the second byte.
#include "samples/01_llm/utf8.hpp"

#include <cstring>

namespace jal::llm {
namespace {

constexpr Utf8Step kInvalidByte{Utf8Step::Kind::invalid, 1};

}  // namespace

Utf8Step utf8_step(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned lead = byte(0);
  if (lead < 0x80) return {Utf8Step::Kind::character, 1};
  if (lead < 0xc2 || lead > 0xf4) return kInvalidByte;
  const std::size_t length = lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : 4;
  const unsigned low = lead == 0xe0 ? 0xa0u : lead == 0xf0 ? 0x90u : 0x80u;
  const unsigned high = lead == 0xed ? 0x9fu : lead == 0xf4 ? 0x8fu : 0xbfu;
  for (std::size_t i = 1; i < length; ++i) {
    if (i == text.size()) return {Utf8Step::Kind::incomplete, i};
    const bool good = i == 1 ? byte(i) >= low && byte(i) <= high : (byte(i) & 0xc0u) == 0x80u;
    if (!good) return {Utf8Step::Kind::invalid, i};
  }
  return {Utf8Step::Kind::character, length};
}

std::size_t utf8_first_invalid(std::string_view text) {
  std::size_t i = 0;
  while (i < text.size()) {
    // Eight ASCII bytes at a time: most of a vocabulary and of a prompt.
    std::uint64_t word = 0;
    if (i + 8 <= text.size()) {
      std::memcpy(&word, text.data() + i, 8);
      if ((word & 0x8080808080808080u) == 0) {
        i += 8;
        continue;
      }
    }
    const Utf8Step step = utf8_step(text.substr(i));
    if (step.kind != Utf8Step::Kind::character) return i;
    i += step.size_bytes;
  }
  return std::string_view::npos;
}

void utf8_append(std::string& out, char32_t c) {
  const auto put = [&](char32_t byte) { out.push_back(static_cast<char>(static_cast<unsigned char>(byte))); };
  if (c < 0x80) {
    put(c);
  } else if (c < 0x800) {
    put(0xc0 | c >> 6);
    put(0x80 | (c & 0x3f));
  } else if (c < 0x10000) {
    put(0xe0 | c >> 12);
    put(0x80 | (c >> 6 & 0x3f));
    put(0x80 | (c & 0x3f));
  } else {
    put(0xf0 | c >> 18);
    put(0x80 | (c >> 12 & 0x3f));
    put(0x80 | (c >> 6 & 0x3f));
    put(0x80 | (c & 0x3f));
  }
}

}  // namespace jal::llm
