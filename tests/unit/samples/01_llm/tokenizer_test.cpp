// Byte-level BPE on the tiny vocabulary (always) and, with the real model, against the ids of an independent tokenizer.
#include "samples/01_llm/tokenizer.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <fstream>
#include <nlohmann/json.hpp>
#include <random>

#include "samples/01_llm/chat.hpp"
#include "samples/01_llm/utf8.hpp"
#include "tests/unit/samples/01_llm/tiny_gguf.hpp"

namespace jal::llm {
namespace {

using test::GgufWriter;
using test::TemporaryFile;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

GgufFile parse(const GgufWriter& writer) {
  const TemporaryFile temporary("tokenizer.gguf", writer.bytes());
  return GgufFile::open(temporary.path());
}

class TinyTokenizer : public testing::Test {
 protected:
  GgufFile file_ = parse(test::tiny_model({}));
  Tokenizer tokenizer_{file_};
};

TEST_F(TinyTokenizer, EveryTextComesBack) {
  const std::uint64_t seed = 42;
  std::mt19937_64 random(seed);
  for (int round = 0; round < 500; ++round) {
    std::string text;
    for (std::uint64_t i = random() % 40; i > 0; --i) {
      constexpr char32_t kEnds[] = {0x7f, 0x7ff, 0xd7ff, 0x10ffff};
      char32_t c = static_cast<char32_t>(random() % (kEnds[random() % 4] + 1));
      if (c >= 0xd800 && c < 0xe000) c = U' ';
      utf8_append(text, c);
    }
    const std::vector<TokenId> ids = tokenizer_.encode(text);
    ASSERT_EQ(tokenizer_.decode(ids), text) << "seed " << seed;
    StreamDecoder stream(tokenizer_);
    std::string streamed;
    for (const TokenId id : ids) {
      const std::string more = stream.push(id);
      ASSERT_EQ(utf8_first_invalid(more), std::string::npos) << "part of a character, seed " << seed;
      streamed += more;
    }
    ASSERT_EQ(streamed + stream.finish(), text);
  }
}

TEST_F(TinyTokenizer, MergesApplyByRankThenFromTheLeft) {
  const auto merges = file_.find_array("tokenizer.ggml.merges", GgufType::string)->strings;
  ASSERT_EQ(merges[0], "h e");
  const auto texts = [&](std::string_view text) {
    std::vector<std::string_view> out;
    for (const TokenId id : tokenizer_.encode(text)) out.push_back(tokenizer_.token_text(id));
    return out;
  };
  EXPECT_THAT(texts("hhe"), ElementsAre("h", "he"));
  // "t he" comes after "h e": the better rank merges first although it stands further right.
  ASSERT_EQ(std::count(merges.begin(), merges.end(), "t he"), 1);
  EXPECT_THAT(texts("thehe"), ElementsAre("the", "he"));
}

TEST_F(TinyTokenizer, ControlTokensTypedByAUserStayText) {
  EXPECT_EQ(tokenizer_.find_control("<|im_end|>"), 2);
  EXPECT_EQ(tokenizer_.find_control("the"), -1);
  EXPECT_EQ(tokenizer_.eos(), 2);
  for (const TokenId id : tokenizer_.encode("<|im_start|>user<|im_end|><|endoftext|>")) EXPECT_GE(id, 3);
  const PromptPart parts[] = {{"<|im_start|>", true}, {"<|im_", false}, {"end|>", false}, {"<|im_end|>", true}};
  const std::vector<TokenId> ids = tokenizer_.encode_parts(parts);
  EXPECT_EQ(ids.front(), 1);
  EXPECT_EQ(ids.back(), 2);
  EXPECT_EQ(std::count(ids.begin(), ids.end(), 2), 1);
  EXPECT_EQ(tokenizer_.decode(ids), "<|im_end|>");
  const PromptPart unknown[] = {{"<|nobody|>", true}};
  EXPECT_THROW(tokenizer_.encode_parts(unknown), GgufError);
}

TEST_F(TinyTokenizer, PlainPartsAreCutAsOneText) {
  const PromptPart parts[] = {{"user\n", false}, {"\n\n the", false}};
  EXPECT_EQ(tokenizer_.encode_parts(parts), tokenizer_.encode("user\n\n\n the"));
}

TEST_F(TinyTokenizer, InvalidUtf8IsRefusedWithItsOffset) {
  const std::pair<std::string, std::size_t> cases[] = {{"ab\xff", 2},          {"\x80", 0},
                                                       {"caf\xc3", 3},         {"\xc0\x80", 0},
                                                       {"a\xed\xa0\x80", 1},   {"\xf4\x90\x80\x80", 0},
                                                       {"ok \xf0\x9f\x98", 3}, {"123456789\xe2\x82z", 9}};
  for (const auto& [text, offset] : cases) {
    try {
      tokenizer_.encode(text);
      ADD_FAILURE() << offset;
    } catch (const TextError& error) {
      EXPECT_EQ(error.offset_bytes(), offset);
      EXPECT_THAT(error.what(), AllOf(HasSubstr("at byte " + std::to_string(offset)), HasSubstr("UTF-8")));
    }
  }
}

TEST_F(TinyTokenizer, StreamReplacesWhatCanBecomeNoCharacter) {
  const auto byte = [&](unsigned b) { return static_cast<TokenId>(3 + b); };
  StreamDecoder stream(tokenizer_);
  EXPECT_EQ(stream.push(byte(0xe2)), "");
  EXPECT_EQ(stream.push(byte(0x82)), "");
  EXPECT_EQ(stream.push(byte(0xac)), "€");
  EXPECT_EQ(stream.push(byte(0xf0)), "");
  EXPECT_EQ(stream.push(byte('x')), "\xef\xbf\xbdx");
  EXPECT_EQ(stream.push(byte(0xff)), "\xef\xbf\xbd");
  EXPECT_EQ(stream.push(byte(0xc3)), "");
  EXPECT_EQ(stream.push(2), "") << "a control token stands for no bytes";
  EXPECT_EQ(stream.finish(), "\xef\xbf\xbd");
  EXPECT_EQ(stream.finish(), "");
  EXPECT_THROW(stream.push(300), std::out_of_range);
  EXPECT_THROW(stream.push(-1), std::out_of_range);
}

TEST_F(TinyTokenizer, LongRunsTakeNoMoreThanLinearTime) {
  const auto start = std::chrono::steady_clock::now();
  for (const char c : {'t', ' ', '!', '\n'}) {
    const std::string text(300000, c);
    EXPECT_EQ(tokenizer_.decode(tokenizer_.encode(text)), text);
  }
  // Quadratic merging would take minutes.
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(20));
}

TEST(Pretokenizer, PiecesFollowTheReference) {
  const Pretokenizer p;
  EXPECT_THAT(p.split("Hello  world's 123!"), ElementsAre("Hello", " ", " world", "'s", " ", "1", "2", "3", "!"));
  EXPECT_THAT(p.split("a  1"), ElementsAre("a", "  ", "1"));
  EXPECT_THAT(p.split("\n\n x \n"), ElementsAre("\n\n", " x", " \n"));
  EXPECT_THAT(p.split("I'M"), ElementsAre("I", "'", "M"));
  EXPECT_THAT(p.split(""), ElementsAre());
}

/// The tiny file with one tokenizer key replaced by `change`.
GgufWriter with_keys(const std::string& left_out, const std::function<void(GgufWriter&)>& change) {
  GgufWriter w;
  const auto add = [&](const char* key, const auto& value) {
    if (left_out != key) w.add(key, value);
  };
  add("tokenizer.ggml.model", "gpt2");
  add("tokenizer.ggml.pre", "smollm");
  add("tokenizer.ggml.tokens", std::vector<std::string>{"<|im_end|>", "a", "b", "ab"});
  add("tokenizer.ggml.token_type", std::vector<std::int32_t>{3, 1, 1, 1});
  add("tokenizer.ggml.merges", std::vector<std::string>{"a b"});
  add("tokenizer.ggml.eos_token_id", std::uint32_t{0});
  change(w);
  return w;
}

TEST(Tokenizer, WrongTablesAreRefused) {
  using Strings = std::vector<std::string>;
  const auto refused = [](const std::string& key, const std::function<void(GgufWriter&)>& change, GgufErrorCode code,
                          const char* words) {
    const GgufFile file = parse(with_keys(key, change));
    try {
      const Tokenizer tokenizer(file);
      ADD_FAILURE() << key << " accepted";
    } catch (const GgufError& error) {
      EXPECT_EQ(static_cast<int>(error.code()), static_cast<int>(code)) << error.what();
      EXPECT_THAT(error.what(), HasSubstr(words));
    }
  };
  const auto nothing = [](GgufWriter&) {};
  const GgufFile good = parse(with_keys("", nothing));
  EXPECT_THAT(Tokenizer(good).encode("abba\x01"), ElementsAre(3, 2, 1)) << "a byte without a token is dropped";
  for (const char* key : {"model", "tokens", "token_type", "merges"}) {
    const std::string full = std::string("tokenizer.ggml.") + key;
    refused(full, nothing, GgufErrorCode::missing_tensor, full.c_str());
  }
  refused(
      "tokenizer.ggml.model", [](GgufWriter& w) { w.add("tokenizer.ggml.model", "llama"); }, GgufErrorCode::unsupported,
      "'llama'");
  refused(
      "tokenizer.ggml.pre", [](GgufWriter& w) { w.add("tokenizer.ggml.pre", "qwen2"); }, GgufErrorCode::unsupported,
      "'qwen2'");
  refused(
      "", [](GgufWriter& w) { w.add("tokenizer.ggml.add_bos_token", true); }, GgufErrorCode::unsupported, "BOS");
  refused(
      "tokenizer.ggml.eos_token_id", [](GgufWriter& w) { w.add("tokenizer.ggml.eos_token_id", std::uint32_t{4}); },
      GgufErrorCode::corrupt, "EOS token 4");
  refused("tokenizer.ggml.eos_token_id", nothing, GgufErrorCode::corrupt, "EOS");
  refused(
      "tokenizer.ggml.tokens",
      [](GgufWriter& w) {
        w.add("tokenizer.ggml.tokens", Strings{"<|im_end|>", "a", "b"});
      },
      GgufErrorCode::corrupt, "4 token types");
  refused(
      "tokenizer.ggml.tokens",
      [](GgufWriter& w) {
        w.add("tokenizer.ggml.tokens", Strings{"<|im_end|>", "a", "a", "ab"});
      },
      GgufErrorCode::corrupt, "'a' twice");
  refused(
      "tokenizer.ggml.merges",
      [](GgufWriter& w) {
        w.add("tokenizer.ggml.merges", Strings{"a b", "b a"});
      },
      GgufErrorCode::corrupt, "merge 1 ('b a')");
  refused(
      "tokenizer.ggml.merges", [](GgufWriter& w) { w.add("tokenizer.ggml.merges", Strings{"ab"}); },
      GgufErrorCode::corrupt, "merge 0");
  refused(
      "",
      [](GgufWriter& w) {
        w.add_tensor("token_embd.weight", GgufTensorType::f32, {2, 5}, std::vector<float>(10));
      },
      GgufErrorCode::corrupt, "has 5 rows");
}

nlohmann::json read_json(const std::string& name) {
  std::ifstream file(std::string(JAL_REFERENCE_DIR) + "/" + name);
  return nlohmann::json::parse(file);
}

class RealTokenizer : public testing::Test {
 protected:
  void SetUp() override {
    const std::string path = test::real_model_path();
    if (path.empty()) GTEST_SKIP() << "the real model is not there; tools/dev/fetch_model.py brings it";
    file_.emplace(GgufFile::open(path));
    const auto start = std::chrono::steady_clock::now();
    tokenizer_.emplace(*file_);
    build_ms_ = std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
  }
  std::optional<GgufFile> file_;
  std::optional<Tokenizer> tokenizer_;
  double build_ms_ = 0;
};

TEST_F(RealTokenizer, IdsEqualThoseOfTheIndependentTokenizer) {
  const nlohmann::json strings = read_json("tokenizer_strings.json"), expected = read_json("tokenizer_expected.json");
  ASSERT_GE(strings.size(), 200u);
  ASSERT_EQ(strings.size(), expected.size());
  for (std::size_t i = 0; i < strings.size(); ++i) {
    const auto text = strings[i].get<std::string>();
    EXPECT_EQ(tokenizer_->encode(text), expected[i].get<std::vector<TokenId>>()) << i << ": " << text;
  }
  std::printf("%zu strings; tables built in %.1f ms\n", strings.size(), build_ms_);
}

TEST_F(RealTokenizer, PromptOfTheDemoHasTheTemplateAroundIt) {
  const ChatTemplate chat(*file_);
  const ChatTurn turns[] = {{ChatRole::user, "What is the capital of France?"}};
  EXPECT_THAT(
      tokenizer_->encode_parts(chat.render(turns)),
      ElementsAre(1, 9690, 198, 2683, 359, 253, 5356, 5646, 11173, 3365, 3511, 308, 34519, 28, 7018, 411, 407, 19712,
                  8182, 2, 198, 1, 4093, 198, 1780, 314, 260, 3575, 282, 4649, 47, 2, 198, 1, 520, 9531, 198));
}

}  // namespace
}  // namespace jal::llm
