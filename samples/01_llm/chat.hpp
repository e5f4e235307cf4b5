// ChatML prompts: turns of a conversation as parts with control tokens.
//
// What it is not: an interpreter of Jinja. The file's template is recognised by its content; any other is refused by
// name. Invariant: what a user or system message says stays plain text; control tokens come only from here. Contract:
// the chat template of the model file (`tokenizer.chat_template`).
#pragma once
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "samples/01_llm/gguf.hpp"
#include "samples/01_llm/tokenizer.hpp"

namespace jal::llm {

enum class ChatRole { system, user, assistant };

struct ChatTurn {
  ChatRole role = ChatRole::user;
  std::string content;
};

class ChatTemplate {
 public:
  /// Recognises the file's template. Throws GgufError: missing_tensor (the file has none), unsupported (it is not
  /// ChatML as known here).
  explicit ChatTemplate(const GgufFile& file);

  /// The system message that the template adds when the conversation does not begin with one; empty when it adds none.
  const std::string& default_system() const { return default_system_; }

  /// A whole conversation as the template writes it, ending with the opening of the assistant's turn.
  std::vector<PromptPart> render(std::span<const ChatTurn> turns) const;

  /// What follows the assistant's answer when the conversation goes on: the tokens before it (prompt and answer) stay
  /// as they are, in the KV cache too. `answer_ended`: the answer's last token was the end-of-turn token, which then is
  /// not repeated.
  std::vector<PromptPart> render_next(std::string_view user, bool answer_ended) const;

 private:
  std::string default_system_;
};

}  // namespace jal::llm
