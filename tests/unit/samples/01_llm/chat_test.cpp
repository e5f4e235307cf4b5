// The template of the file: recognised, rendered, several turns, others refused.
#include "samples/01_llm/chat.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/samples/01_llm/tiny_gguf.hpp"

namespace jal::llm {
namespace {

using testing::AllOf;
using testing::HasSubstr;

GgufFile file_with(const char* chat_template) {
  test::GgufWriter w;
  if (chat_template != nullptr) w.add("tokenizer.chat_template", chat_template);
  const test::TemporaryFile temporary("chat.gguf", w.bytes());
  return GgufFile::open(temporary.path());
}

/// Control parts in braces.
std::string text_of(const std::vector<PromptPart>& parts) {
  std::string text;
  for (const PromptPart& part : parts) text += part.is_control ? "{" + part.text + "}" : part.text;
  return text;
}

constexpr const char* kSystem =
    "{<|im_start|>}system\nYou are a helpful AI assistant named SmolLM, trained by Hugging Face{<|im_end|>}\n";

TEST(ChatTemplate, FirstTurnGetsTheDefaultSystemMessage) {
  const ChatTemplate chat(file_with(test::kSmolLmTemplate));
  EXPECT_EQ(chat.default_system(), "You are a helpful AI assistant named SmolLM, trained by Hugging Face");
  const ChatTurn turns[] = {{ChatRole::user, "Hi <|im_end|>"}};
  EXPECT_EQ(text_of(chat.render(turns)),
            std::string(kSystem) + "{<|im_start|>}user\nHi <|im_end|>{<|im_end|>}\n{<|im_start|>}assistant\n");
}

TEST(ChatTemplate, OwnSystemMessageReplacesTheDefault) {
  const ChatTemplate chat(file_with(test::kSmolLmTemplate));
  const ChatTurn turns[] = {{ChatRole::system, "Be brief."}, {ChatRole::user, "Hi"}};
  EXPECT_EQ(
      text_of(chat.render(turns)),
      "{<|im_start|>}system\nBe brief.{<|im_end|>}\n{<|im_start|>}user\nHi{<|im_end|>}\n{<|im_start|>}assistant\n");
}

TEST(ChatTemplate, NextTurnContinuesWhatWasRendered) {
  const ChatTemplate chat(file_with(test::kSmolLmTemplate));
  const ChatTurn first[] = {{ChatRole::user, "A"}};
  const ChatTurn all[] = {{ChatRole::user, "A"}, {ChatRole::assistant, "B"}, {ChatRole::user, "C"}};
  const std::string whole = text_of(chat.render(all));
  EXPECT_EQ(text_of(chat.render(first)) + "B{<|im_end|>}" + text_of(chat.render_next("C", true)), whole);
  EXPECT_EQ(text_of(chat.render(first)) + "B" + text_of(chat.render_next("C", false)), whole);
}

TEST(ChatTemplate, TemplateWithoutSystemBranchAndEscapedNewlinesIsKnown) {
  const ChatTemplate chat(
      file_with("{% for message in messages %}{{'<|im_start|>' + message['role'] + '\\n' + message['content'] + "
                "'<|im_end|>' + '\\n'}}{% endfor %}"
                "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"));
  EXPECT_EQ(chat.default_system(), "");
  const ChatTurn turns[] = {{ChatRole::user, "Hi"}};
  EXPECT_EQ(text_of(chat.render(turns)), "{<|im_start|>}user\nHi{<|im_end|>}\n{<|im_start|>}assistant\n");
}

TEST(ChatTemplate, OtherTemplatesAreRefused) {
  const std::string altered = std::string(test::kSmolLmTemplate) + " ";
  std::string code = test::kSmolLmTemplate;
  code.replace(code.find("You are"), 7, "' + x + '");
  for (const std::string& text :
       {std::string("{{ bos_token }}{% for message in messages %}[INST] ... [/INST]{% endfor %}"), std::string(""),
        altered, code}) {
    try {
      const ChatTemplate chat(file_with(text.c_str()));
      ADD_FAILURE() << "accepted: " << text;
    } catch (const GgufError& error) {
      EXPECT_EQ(error.code(), GgufErrorCode::unsupported);
      EXPECT_THAT(error.what(),
                  AllOf(HasSubstr("chat.gguf"), HasSubstr("choose another model"), HasSubstr(text.substr(0, 20))));
    }
  }
  try {
    const ChatTemplate chat(file_with(nullptr));
    ADD_FAILURE();
  } catch (const GgufError& error) {
    EXPECT_EQ(error.code(), GgufErrorCode::missing_tensor);
  }
}

}  // namespace
}  // namespace jal::llm
