// The model's latency path against the published figure: a GPT-OSS decoder layer on eight chips takes about 18.5 us.
//
// The kernels and their launch are those of the benchmark (tests/bench/slice). Modelled time is exact: no margin here
// covers for the host.
#include <cmath>
#include <filesystem>
#include <memory>

#include "emulator/model/model.hpp"
#include "tests/bench/slice/decoder_layer.hpp"
#include "tests/unit/emulator/model/latency_reference.hpp"

namespace jal::emu {
namespace {

constexpr std::uint32_t kLayers = 2;

class LayerLatency : public testing::Test {
 protected:
  void SetUp() override {
    char name[] = "/tmp/jal-latency-XXXXXX";
    directory_ = mkdtemp(name);
    setenv("JAL_RUNTIME_DIR", directory_.c_str(), 1);
    std::string error;
    ASSERT_TRUE(load_model("jal1-a0", &model_, &error)) << error;
  }
  void TearDown() override { std::filesystem::remove_all(directory_); }
  /// Time per layer on a fresh chip; *values becomes the residual stream after the layers.
  bench::LayerTime run(std::vector<float>* values) const {
    jal_init_options options{};
    options.model = "jal1-a0";
    const Library library(options);
    const Device device;
    bench::DecoderLayers decoder(device, JAL_DECODER_LAYER, model_.fabric_allreduce_ps);
    const bench::LayerTime time = decoder.run(kLayers);
    *values = decoder.stream_values();
    return time;
  }

  std::string directory_;
  Model model_;
};

TEST_F(LayerLatency, GptOssOnEightChipsIsWithinFivePercentOfPublishedAndTheSameWithOneWorker) {
  std::vector<float> values, values_again;
  const bench::LayerTime time = run(&values);
  EXPECT_NEAR(time.whole / 1e6, 18.5, 18.5 * 0.05);
  // What the model names for two kernels is all that a launch may cost.
  EXPECT_NEAR(time.launch, 2.0 * static_cast<double>(model_.packet_ps + model_.dispatch_ps + model_.completion_ps),
              100'000);
  EXPECT_EQ(time.fabric, 2.0 * static_cast<double>(model_.fabric_allreduce_ps));
  EXPECT_GT(time.hbm, 0);
  EXPECT_GT(time.engine, 0);
  EXPECT_GT(time.collective, 0);
  setenv("JAL_WORKERS", "1", 1);
  const bench::LayerTime again = run(&values_again);
  unsetenv("JAL_WORKERS");
  EXPECT_EQ(time.whole, again.whole);
  EXPECT_EQ(time.engine, again.engine);
  EXPECT_EQ(values, values_again);
}

TEST_F(LayerLatency, LayersComputeWhatADecoderLayerIs) {
  jal_init_options options{};
  options.model = "jal1-a0";
  const Library library(options);
  const Device device;
  bench::DecoderLayers decoder(device, JAL_DECODER_LAYER, model_.fabric_allreduce_ps);
  const auto check = [&](const std::vector<float>& before, const std::vector<double>& added, double tolerance) {
    const std::vector<float> after = decoder.stream_values();
    double size = 0, error = 0;
    for (std::size_t i = 0; i < after.size(); ++i) {
      size += added[i] * added[i];
      error += std::pow(static_cast<double>(after[i]) - before[i] - added[i], 2);
    }
    EXPECT_LT(std::sqrt(error / size), tolerance);
  };
  for (const std::uint32_t layer : {0u, 1u}) {
    SCOPED_TRACE(layer);
    const ReferenceLayer reference(device, decoder.layer(layer));
    std::vector<float> before = decoder.stream_values();
    std::vector<double> added = reference.attention(before);
    decoder.run_attention(layer);
    check(before, added, 1e-4);  // one token among 8,192, or the sinks, would be seen
    before = decoder.stream_values();
    added = reference.experts(before);
    decoder.run_experts(layer);
    check(before, added, 6e-3);  // activations in BF16
  }
}

}  // namespace
}  // namespace jal::emu
