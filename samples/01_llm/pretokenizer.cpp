// One pattern for both steps.
#define PCRE2_CODE_UNIT_WIDTH 8
#include "samples/01_llm/pretokenizer.hpp"

#include <pcre2.h>
#include <spdlog/fmt/fmt.h>

#include <stdexcept>

namespace jal::llm {
namespace {

// White space as Unicode's property White_Space has it. PCRE2's \s also counts U+180E, which is none since Unicode 6.3.
#define JAL_SPACE \
  "\\t-\\r\\x{20}\\x{85}\\x{a0}\\x{1680}\\x{2000}-\\x{200a}\\x{2028}\\x{2029}\\x{202f}\\x{205f}\\x{3000}"

// GPT-2's pattern, with numeric characters cut out first: they end a piece, so the look-ahead treats one like the end
// of the text, and " ?\p{N}+" shrinks to one character without its space.
constexpr const char* kPattern =
    "'(?:s|t|re|ve|m|ll|d)"
    "|\\x{20}?\\p{L}+"
    "|\\p{N}"
    "|\\x{20}?[^" JAL_SPACE
    "\\p{L}\\p{N}]+"
    "|[" JAL_SPACE "]+(?![^" JAL_SPACE
    "\\p{N}])"
    "|[" JAL_SPACE "]+";

}  // namespace

struct Pretokenizer::Pattern {
  pcre2_code* code = nullptr;
  ~Pattern() { pcre2_code_free(code); }
};

Pretokenizer::Pretokenizer() : pattern_(std::make_unique<Pattern>()) {
  int error = 0;
  PCRE2_SIZE at = 0;
  pattern_->code = pcre2_compile(reinterpret_cast<PCRE2_SPTR>(kPattern), PCRE2_ZERO_TERMINATED,
                                 PCRE2_UTF | PCRE2_UCP | PCRE2_ANCHORED, &error, &at, nullptr);
  if (pattern_->code == nullptr) {
    throw std::runtime_error(fmt::format(
        "PCRE2 refuses the tokenizer's pattern at {} (error {}); is it built with Unicode support?", at, error));
  }
  // Without a just-in-time compiler for this processor the interpreter gives the same pieces, only slower.
  (void)pcre2_jit_compile(pattern_->code, PCRE2_JIT_COMPLETE);
}
Pretokenizer::~Pretokenizer() = default;
Pretokenizer::Pretokenizer(Pretokenizer&&) noexcept = default;
Pretokenizer& Pretokenizer::operator=(Pretokenizer&&) noexcept = default;

std::vector<std::string_view> Pretokenizer::split(std::string_view text) const {
  std::vector<std::string_view> pieces;
  struct Free {
    void operator()(pcre2_match_data* data) const { pcre2_match_data_free(data); }
  };
  const std::unique_ptr<pcre2_match_data, Free> match(pcre2_match_data_create_from_pattern(pattern_->code, nullptr));
  if (match == nullptr) throw std::bad_alloc();
  const auto* subject = reinterpret_cast<PCRE2_SPTR>(text.data());
  std::size_t at = 0;
  while (at < text.size()) {
    const int found = pcre2_match(pattern_->code, subject, text.size(), at, PCRE2_NO_UTF_CHECK, match.get(), nullptr);
    if (found < 0)
      throw std::runtime_error(
          fmt::format("PCRE2 failed at byte {} of the text (error {}); shorten the text", at, found));
    const std::size_t end = pcre2_get_ovector_pointer(match.get())[1];
    if (end <= at) throw std::logic_error(fmt::format("the tokenizer's pattern matched nothing at byte {}", at));
    pieces.push_back(text.substr(at, end - at));
    at = end;
  }
  return pieces;
}

}  // namespace jal::llm
