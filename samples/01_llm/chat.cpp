// The known template's text around its one variable part, the default system message.
#include "samples/01_llm/chat.hpp"

#include <spdlog/fmt/fmt.h>

#include "samples/01_llm/utf8.hpp"

namespace jal::llm {
namespace {

constexpr std::string_view kStart = "<|im_start|>";
constexpr std::string_view kEnd = "<|im_end|>";

// SmolLM2's template: its loop, with and without the branch that adds a system message. Between kHead and kAfterSystem
// stands the message.
constexpr std::string_view kLoop = "{% for message in messages %}";
constexpr std::string_view kHead = "{% if loop.first and messages[0]['role'] != 'system' %}{{ '<|im_start|>system\n";
constexpr std::string_view kAfterSystem = "<|im_end|>\n' }}{% endif %}";
constexpr std::string_view kTail =
    "{{'<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n'}}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}";

std::string_view name_of(ChatRole role) {
  switch (role) {
    case ChatRole::system:
      return "system";
    case ChatRole::user:
      return "user";
    case ChatRole::assistant:
      return "assistant";
  }
  return "user";
}

/// Converters write the newlines of the template's strings either as they are or as \n.
std::string with_newlines(std::string_view text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const bool escape = text[i] == '\\' && i + 1 < text.size() && text[i + 1] == 'n';
    out.push_back(escape ? '\n' : text[i]);
    i += escape;
  }
  return out;
}

/// At most 48 bytes of a text, cut between characters.
std::string_view beginning(std::string_view text) {
  std::size_t end = 0;
  while (end < text.size() && end < 44) end += utf8_step(text.substr(end)).size_bytes;
  return text.substr(0, end);
}

void open_turn(std::vector<PromptPart>& parts, ChatRole role) {
  parts.push_back({std::string(kStart), true});
  parts.push_back({std::string(name_of(role)) + "\n", false});
}

void add_turn(std::vector<PromptPart>& parts, ChatRole role, std::string_view content) {
  open_turn(parts, role);
  parts.push_back({std::string(content), false});
  parts.push_back({std::string(kEnd), true});
  parts.push_back({"\n", false});
}

}  // namespace

ChatTemplate::ChatTemplate(const GgufFile& file) {
  const auto found = file.find_string("tokenizer.chat_template");
  if (!found) {
    throw GgufError(GgufErrorCode::missing_tensor,
                    fmt::format("{}: has no chat template ('tokenizer.chat_template'); choose a model tuned for chat",
                                file.path()));
  }
  const std::string text = with_newlines(*found);
  std::string_view rest = text;
  const auto take = [&rest](std::string_view expected) {
    const bool there = rest.substr(0, expected.size()) == expected;
    if (there) rest.remove_prefix(expected.size());
    return there;
  };
  bool known = take(kLoop);
  if (known && take(kHead)) {
    const std::size_t end = rest.find(kAfterSystem);
    known = end != std::string_view::npos;
    if (known) {
      default_system_ = rest.substr(0, end);
      rest.remove_prefix(end);
      // A quote or brace would end the string in the template or begin code.
      known = take(kAfterSystem) && default_system_.find_first_of("'{}\\") == std::string::npos;
    }
  }
  if (!known || rest != kTail) {
    throw GgufError(GgufErrorCode::unsupported, fmt::format("{}: its chat template is not the ChatML template this "
                                                            "program knows (it begins with '{}'); choose another model",
                                                            file.path(), beginning(*found)));
  }
}

std::vector<PromptPart> ChatTemplate::render(std::span<const ChatTurn> turns) const {
  std::vector<PromptPart> parts;
  if (!default_system_.empty() && !turns.empty() && turns.front().role != ChatRole::system)
    add_turn(parts, ChatRole::system, default_system_);
  for (const ChatTurn& turn : turns) add_turn(parts, turn.role, turn.content);
  open_turn(parts, ChatRole::assistant);
  return parts;
}

std::vector<PromptPart> ChatTemplate::render_next(std::string_view user, bool answer_ended) const {
  std::vector<PromptPart> parts;
  if (!answer_ended) parts.push_back({std::string(kEnd), true});
  parts.push_back({"\n", false});
  add_turn(parts, ChatRole::user, user);
  open_turn(parts, ChatRole::assistant);
  return parts;
}

}  // namespace jal::llm
