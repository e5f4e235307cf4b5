// Conversion and cache: hit, damage, other keys, a disk without room, a folder that cannot be written.
#include "samples/01_llm/cache.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "tests/unit/samples/01_llm/tiny_gguf.hpp"

namespace jal::llm {
namespace {

using testing::HasSubstr;

class Cache : public testing::Test {
 protected:
  Cache()
      : temporary_("cache.gguf", test::tiny_model({}).bytes()),
        file_(GgufFile::open(temporary_.path())),
        config_(read_model_config(file_)),
        tensors_(read_model_tensors(file_, config_)),
        hash_(sha256(file_.bytes())),
        folder_(temporary_.path() + ".d/deeper") {}
  ~Cache() override { std::filesystem::remove_all(temporary_.path() + ".d"); }

  Weights load(WeightFormat format) {
    notices_.clear();
    return load_weights(tensors_, format, hash_, 2, folder_, [&](const std::string& line) { notices_ += line + "\n"; });
  }
  std::string path(WeightFormat format) const { return cache_path(folder_, format, hash_); }
  std::size_t files() const {
    return std::filesystem::exists(folder_)
               ? static_cast<std::size_t>(std::distance(std::filesystem::directory_iterator(folder_), {}))
               : 0;
  }
  static std::string text(std::span<const std::uint8_t> bytes) { return {bytes.begin(), bytes.end()}; }

  test::TemporaryFile temporary_;
  GgufFile file_;
  ModelConfig config_;
  ModelTensors tensors_;
  Sha256 hash_;
  std::string folder_;
  std::string notices_;
};

TEST_F(Cache, ConvertedWeightsAreTheQuantisedRowsOfEveryTensor) {
  for (const WeightFormat format : {WeightFormat::bf16, WeightFormat::mxfp8, WeightFormat::mxfp4}) {
    const Weights weights = Weights::convert(tensors_, format, 2);
    const WeightViews& views = weights.views();
    EXPECT_EQ(views.token_embd.format, WeightFormat::bf16);
    EXPECT_EQ(views.output.codes.data(), views.token_embd.codes.data());
    ASSERT_EQ(views.layers.size(), 2u);
    EXPECT_EQ(views.layers[1].ffn_norm.size(), 64u);
    const std::pair<const WeightMatrix*, const GgufTensor*> pairs[] = {
        {&views.token_embd, tensors_.token_embd},
        {&views.layers[0].attn_q, tensors_.layers[0].attn_q},
        {&views.layers[1].attn_v, tensors_.layers[1].attn_v},
        {&views.layers[1].ffn_down, tensors_.layers[1].ffn_down}};
    for (const auto& [matrix, tensor] : pairs) {
      ASSERT_EQ(matrix->source, tensor);
      ASSERT_EQ(matrix->rows, tensor->rows());
      ASSERT_EQ(matrix->columns, tensor->row_elements());
      std::vector<float> row(matrix->columns);
      std::vector<std::uint8_t> codes(matrix->code_row_bytes()), scales(matrix->scale_row_bytes());
      for (const std::uint32_t r : {0u, matrix->rows - 1}) {
        dequantize_row(*tensor, r, row);
        quantize_row(matrix->format, row, codes.data(), scales.data());
        EXPECT_EQ(text(matrix->codes.subspan(r * codes.size(), codes.size())), text(codes)) << tensor->name;
        EXPECT_EQ(text(matrix->scales.subspan(r * scales.size(), scales.size())), text(scales)) << tensor->name;
      }
    }
    EXPECT_EQ(text(weights.block()), text(Weights::convert(tensors_, format, 1).block()));
  }
}

TEST_F(Cache, SecondLoadMapsTheSameBytes) {
  const Weights first = load(WeightFormat::mxfp4);
  EXPECT_EQ(notices_, "");
  EXPECT_EQ(files(), 1u);
  const Weights second = load(WeightFormat::mxfp4);
  EXPECT_EQ(notices_, "");
  EXPECT_EQ(text(first.block()), text(second.block()));
  const Weights other = load(WeightFormat::mxfp8);
  EXPECT_EQ(files(), 2u);
}

TEST_F(Cache, DamageAnywhereIsSaidAndRepaired) {
  const Weights good = load(WeightFormat::mxfp8);
  const std::string name = path(WeightFormat::mxfp8);
  const auto size = std::filesystem::file_size(name);
  for (const std::uintmax_t at : {std::uintmax_t{3}, std::uintmax_t{20}, std::uintmax_t{60}, std::uintmax_t{127},
                                  std::uintmax_t{128}, size / 2, size - 1}) {
    {
      std::fstream file(name, std::ios::in | std::ios::out | std::ios::binary);
      file.seekg(static_cast<std::streamoff>(at));
      const int byte = file.get();
      file.seekp(static_cast<std::streamoff>(at));
      file.put(static_cast<char>(byte ^ 1));
    }
    EXPECT_EQ(text(load(WeightFormat::mxfp8).block()), text(good.block()));
    EXPECT_THAT(notices_, HasSubstr("converting again")) << at;
    load(WeightFormat::mxfp8);
    EXPECT_EQ(notices_, "") << "not repaired at " << at;
  }
  std::filesystem::resize_file(name, size - 1);
  load(WeightFormat::mxfp8);
  EXPECT_THAT(notices_, HasSubstr("bytes, should have"));
  std::filesystem::resize_file(name, 0);
  load(WeightFormat::mxfp8);
  EXPECT_THAT(notices_, HasSubstr("has 0 bytes"));
}

TEST_F(Cache, FileOfAnotherKeyIsNotUsed) {
  const Weights good = load(WeightFormat::mxfp8);
  Sha256 other = hash_;
  other[31] ^= 1;  // not part of the name
  std::filesystem::rename(path(WeightFormat::mxfp8), cache_path(folder_, WeightFormat::mxfp8, other));
  hash_ = other;
  EXPECT_EQ(text(load(WeightFormat::mxfp8).block()), text(good.block()));
  EXPECT_THAT(notices_, HasSubstr("another model"));
}

TEST_F(Cache, FullDiskIsAWarning) {
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  const rlimit small{1000, before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
  const Weights weights = load(WeightFormat::bf16);
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &before), 0);
  std::signal(SIGXFSZ, handler);
  EXPECT_THAT(notices_, HasSubstr("could not be cached"));
  EXPECT_EQ(files(), 0u) << "a half-written file stays";
  EXPECT_EQ(text(weights.block()), text(Weights::convert(tensors_, WeightFormat::bf16, 1).block()));
}

TEST_F(Cache, UnusableFolderIsAWarningAndNoneIsSilent) {
  folder_ = temporary_.path() + "/below_a_file";
  EXPECT_FALSE(load(WeightFormat::bf16).block().empty());
  EXPECT_THAT(notices_, HasSubstr("Not a directory"));
  folder_.clear();
  EXPECT_FALSE(load(WeightFormat::bf16).block().empty());
  EXPECT_EQ(notices_, "");
}

TEST(WeightsOfTheRealModel, BytesAreThoseOfTheIndependentReference) {
  const std::string model = test::real_model_path();
  if (model.empty()) GTEST_SKIP() << "the real model is not there; tools/dev/fetch_model.py brings it";
  const GgufFile file = GgufFile::open(model);
  std::ifstream stream(std::string(JAL_REFERENCE_DIR) + "/weights_expected.json");
  const nlohmann::json expected = nlohmann::json::parse(stream);
  ASSERT_GE(expected.size(), 5u);
  for (const auto& [name, hashes] : expected.items()) {
    const GgufTensor* tensor = file.find_tensor(name);
    ASSERT_NE(tensor, nullptr) << name;
    std::vector<float> values(tensor->rows() * tensor->row_elements());
    for (std::uint64_t r = 0; r < tensor->rows(); ++r) {
      dequantize_row(*tensor, r, std::span(values).subspan(r * tensor->row_elements(), tensor->row_elements()));
    }
    EXPECT_EQ(hex(sha256({reinterpret_cast<const std::uint8_t*>(values.data()), values.size() * sizeof(float)})),
              hashes["f32"])
        << name;
    for (const WeightFormat format : {WeightFormat::bf16, WeightFormat::mxfp8, WeightFormat::mxfp4}) {
      const std::string key(name_of(format));
      if (!hashes.contains(key)) continue;
      const std::size_t code_bytes = code_row_bytes(format, tensor->row_elements()),
                        scale_bytes = scale_row_bytes(format, tensor->row_elements());
      std::vector<std::uint8_t> codes(code_bytes * tensor->rows()), scales(scale_bytes * tensor->rows());
      for (std::uint64_t r = 0; r < tensor->rows(); ++r) {
        quantize_row(format, std::span(values).subspan(r * tensor->row_elements(), tensor->row_elements()),
                     &codes[r * code_bytes], scales.data() + r * scale_bytes);
      }
      EXPECT_EQ(hex(sha256(codes)), hashes[key]) << name << " " << key;
      if (scale_bytes != 0) {
        EXPECT_EQ(hex(sha256(scales)), hashes[key + "_scales"]) << name << " " << key;
      }
    }
  }
}

TEST(CacheOfTheRealModel, SecondLoadIsQuick) {
  const std::string model = test::real_model_path();
  if (model.empty()) GTEST_SKIP() << "the real model is not there; tools/dev/fetch_model.py brings it";
  const GgufFile file = GgufFile::open(model);
  const ModelTensors tensors = read_model_tensors(file, read_model_config(file));
  const test::TemporaryFile place("real_cache", "");
  const std::string folder = place.path() + ".d";
  const Sha256 hash{};
  for (const WeightFormat format : {WeightFormat::bf16, WeightFormat::mxfp8, WeightFormat::mxfp4}) {
    for (const char* what : {"converted and stored", "from the cache"}) {
      const auto start = std::chrono::steady_clock::now();
      const Weights weights =
          load_weights(tensors, format, hash, 2, folder, [](const std::string& line) { ADD_FAILURE() << line; });
      const double ms = std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
      std::printf("%s, %zu MB, %s: %.0f ms\n", std::string(name_of(format)).c_str(), weights.block().size() / 1000000,
                  what, ms);
    }
  }
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace jal::llm
