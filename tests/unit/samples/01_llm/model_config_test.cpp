// Hyperparameters and tensors of the tiny model, each refusal, and the check of a known model's bytes.
#include "samples/01_llm/model_config.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "samples/01_llm/known_models.hpp"
#include "tests/unit/samples/01_llm/tiny_gguf.hpp"

namespace jal::llm {
namespace {

using test::GgufWriter;
using test::TemporaryFile;
using testing::AllOf;
using testing::HasSubstr;

void load(const GgufWriter& writer) {
  const TemporaryFile temporary("config.gguf", writer.bytes());
  const GgufFile file = GgufFile::open(temporary.path());
  read_model_tensors(file, read_model_config(file));
}

template <typename... Parts>
void expect_refused(const GgufWriter& writer, GgufErrorCode code, Parts... parts) {
  try {
    load(writer);
    ADD_FAILURE() << "accepted";
  } catch (const GgufError& error) {
    EXPECT_EQ(static_cast<int>(error.code()), static_cast<int>(code)) << error.what();
    EXPECT_THAT(error.what(), AllOf(HasSubstr("config.gguf"), HasSubstr(parts)...));
  }
}

/// Metadata of a small model whose single keys a test may replace by nullptr (leave out) or another value.
GgufWriter keys(const std::function<bool(GgufWriter&, const std::string&)>& replaced) {
  GgufWriter w;
  const auto number = [&](const char* key, std::uint32_t value) {
    if (!replaced(w, key)) w.add(key, value);
  };
  if (!replaced(w, "general.architecture")) w.add("general.architecture", "llama");
  number("llama.block_count", 1);
  number("llama.embedding_length", 64);
  number("llama.feed_forward_length", 96);
  number("llama.attention.head_count", 4);
  number("llama.attention.head_count_kv", 2);
  number("llama.context_length", 256);
  if (!replaced(w, "llama.attention.layer_norm_rms_epsilon")) w.add("llama.attention.layer_norm_rms_epsilon", 1e-5f);
  replaced(w, "extra");
  w.add_tensor("token_embd.weight", GgufTensorType::f32, {64, 10}, std::vector<float>(640));
  return w;
}

TEST(ModelConfig, TinyModelIsReadWithEveryTensor) {
  for (const bool tied : {true, false}) {
    const TemporaryFile temporary("config.gguf", test::tiny_model({.tied_head = tied}).bytes());
    const GgufFile file = GgufFile::open(temporary.path());
    const ModelConfig config = read_model_config(file);
    EXPECT_EQ(config.name, "tiny");
    EXPECT_EQ(config.layers, 2u);
    EXPECT_EQ(config.hidden, 64u);
    EXPECT_EQ(config.ffn, 96u);
    EXPECT_EQ(config.heads, 4u);
    EXPECT_EQ(config.kv_heads, 2u);
    EXPECT_EQ(config.head_dim, 16u);
    EXPECT_EQ(config.kv_rows(), 32u);
    EXPECT_EQ(config.vocab, 300u);
    EXPECT_EQ(config.context, 256u);
    EXPECT_EQ(config.rope_base, 10000.0f);
    EXPECT_EQ(config.rms_eps, 1e-5f);
    EXPECT_EQ(config.tied_head, tied);
    const ModelTensors tensors = read_model_tensors(file, config);
    ASSERT_EQ(tensors.layers.size(), 2u);
    EXPECT_EQ(tensors.output == tensors.token_embd, tied);
    EXPECT_EQ(tensors.layers[1].attn_k->name, "blk.1.attn_k.weight");
    EXPECT_EQ(tensors.layers[1].ffn_down->row_elements(), 96u);
  }
}

TEST(ModelConfig, WrongKeysAreRefused) {
  const auto without = [](const std::string& name) {
    return keys([name](GgufWriter&, const std::string& key) { return key == name; });
  };
  const auto with = [](const std::string& name, auto value) {
    return keys([name, value](GgufWriter& w, const std::string& key) {
      return key == name ? (w.add(key, value), true) : false;
    });
  };
  const auto extra = [](const std::string& name, auto value) {
    return keys([name, value](GgufWriter& w, const std::string& key) {
      return key == "extra" ? (w.add(name, value), true) : false;
    });
  };
  for (const char* key :
       {"general.architecture", "llama.block_count", "llama.embedding_length", "llama.feed_forward_length",
        "llama.attention.head_count", "llama.context_length", "llama.attention.layer_norm_rms_epsilon"}) {
    expect_refused(without(key), GgufErrorCode::missing_tensor, key);
  }
  expect_refused(with("general.architecture", "gpt-oss"), GgufErrorCode::unsupported, "gpt-oss", "choose another");
  expect_refused(with("llama.block_count", std::uint32_t{0}), GgufErrorCode::corrupt, "is 0");
  expect_refused(with("llama.block_count", std::uint32_t{4000000000}), GgufErrorCode::too_large, "4000000000", "1024");
  expect_refused(with("llama.block_count", 1.0f), GgufErrorCode::corrupt, "llama.block_count");
  expect_refused(with("llama.attention.head_count_kv", std::uint32_t{3}), GgufErrorCode::corrupt, "4 heads",
                 "3 KV heads");
  expect_refused(with("llama.attention.head_count", std::uint32_t{6}), GgufErrorCode::corrupt, "64", "6 heads");
  expect_refused(with("llama.attention.layer_norm_rms_epsilon", -1.0f), GgufErrorCode::corrupt, "-1");
  expect_refused(extra("llama.expert_count", std::uint32_t{8}), GgufErrorCode::unsupported, "8 experts");
  expect_refused(extra("llama.rope.scaling.type", "yarn"), GgufErrorCode::unsupported, "yarn");
  expect_refused(extra("llama.rope.dimension_count", std::uint32_t{8}), GgufErrorCode::unsupported,
                 "RoPE dimensions 8");
  expect_refused(extra("llama.vocab_size", std::uint32_t{11}), GgufErrorCode::corrupt, "11", "10 rows");
  expect_refused(extra("llama.unused", std::uint32_t{1}), GgufErrorCode::missing_tensor, "output_norm.weight", "again");
}

TEST(ModelConfig, WrongTensorsAreRefused) {
  GgufWriter bias = test::tiny_model({});
  bias.add_tensor("blk.0.attn_q.bias", GgufTensorType::f32, {64}, std::vector<float>(64));
  expect_refused(bias, GgufErrorCode::unsupported, "blk.0.attn_q.bias");
  GgufWriter wide = test::tiny_model({});
  wide.add_tensor("output.weight", GgufTensorType::f32, {32, 300}, std::vector<float>(9600));
  expect_refused(wide, GgufErrorCode::corrupt, "output.weight", "300 x 32", "300 x 64");
  GgufWriter embedding;
  embedding.add("general.architecture", "llama");
  expect_refused(embedding, GgufErrorCode::missing_tensor, "llama.block_count");
}

TEST(KnownModels, HashOfKnownTextsIsThatOfTheStandard) {
  const std::string abc = "abc";
  EXPECT_EQ(hex(sha256({reinterpret_cast<const std::uint8_t*>(abc.data()), abc.size()})),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(hex(sha256({})), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
}

TEST(KnownModels, NameOfAKnownModelDemandsItsBytes) {
  const KnownModel& known = known_models()[0];
  const std::vector<std::uint8_t> other(1000);
  const KnownModel* found = &known;
  EXPECT_NO_THROW(verify_known_model("folder/other.gguf", other, &found));
  EXPECT_EQ(found, nullptr);
  try {
    verify_known_model("folder/" + std::string(known.file_name), other, nullptr);
    ADD_FAILURE();
  } catch (const GgufError& error) {
    EXPECT_EQ(error.code(), GgufErrorCode::truncated);
    EXPECT_THAT(error.what(), AllOf(HasSubstr("1000 bytes"), HasSubstr("98362432"), HasSubstr("delete")));
  }
}

TEST(KnownModels, AnyFlippedByteOfTheRealModelIsFound) {
  const std::string path = test::real_model_path();
  if (path.empty()) GTEST_SKIP() << "the real model is not there; tools/dev/fetch_model.py brings it";
  const GgufFile file = GgufFile::open(path);
  const KnownModel* found = nullptr;
  EXPECT_EQ(hex(verify_known_model(path, file.bytes(), &found)), known_models()[0].sha256_hex);
  EXPECT_EQ(found, &known_models()[0]);
  const ModelConfig config = read_model_config(file);
  EXPECT_EQ(config.layers, 30u);
  EXPECT_EQ(config.vocab, 49152u);
  EXPECT_TRUE(config.tied_head);
  EXPECT_EQ(read_model_tensors(file, config).layers.size(), 30u);
  std::vector<std::uint8_t> bytes(file.bytes().begin(), file.bytes().end());
  for (const std::size_t at : {std::size_t{5}, bytes.size() / 2, bytes.size() - 1}) {
    bytes[at] ^= 0x10;
    // Under its own name and under another: the size alone says which model it is.
    for (const std::string& name : {path, std::string("renamed.gguf")}) {
      try {
        verify_known_model(name, bytes, nullptr);
        ADD_FAILURE() << "accepted with a flipped byte at " << at;
      } catch (const GgufError& error) {
        EXPECT_EQ(error.code(), GgufErrorCode::corrupt);
        EXPECT_THAT(error.what(), AllOf(HasSubstr("SHA-256"), HasSubstr("fetch it again")));
      }
    }
    bytes[at] ^= 0x10;
  }
}

}  // namespace
}  // namespace jal::llm
