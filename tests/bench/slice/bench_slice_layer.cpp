// Modelled time of a decoder layer of GPT-OSS-120B on eight chips, and what it is made of.
//
// The published minimum of 0.69 ms a token over 36 layers and the head means about 18.5 us a layer. Modelled figures:
// the same on every host; n counts layers.
#include <cmath>
#include <stdexcept>

#include "emulator/model/model.hpp"
#include "tests/bench/slice/decoder_layer.hpp"
#include "tests/bench/slice/session.hpp"

namespace {

constexpr std::uint32_t kLayers = 36;
constexpr double kPublishedUs = 18.5;

void run(jal::bench::Report& report, const jal::Device& device) {
  jal::emu::Model model;
  std::string error;
  if (!jal::emu::load_model("jal1-a0", &model, &error)) throw std::runtime_error(error);
  jal::bench::DecoderLayers decoder(device, jal::bench::kernels_path("decoder_layer.jko"), model.fabric_allreduce_ps);
  const jal::bench::LayerTime time = decoder.run(kLayers);
  const auto add = [&](const std::string& part, double ps) {
    report.add({.bench = "slice",
                .name = "layer_latency_gpt_oss" + part,
                .value = ps / 1e6,
                .unit = "us",
                .is_modelled = true,
                .n = kLayers});
  };
  add(".launch", time.launch);
  add(".hbm", time.hbm);
  add(".engines", time.engine);
  add(".collectives", time.collective);
  add(".fabric", time.fabric);
  report.add({.bench = "slice",
              .name = "layer_latency_gpt_oss.off_published",
              .value = std::abs(time.whole / 1e6 / kPublishedUs - 1) * 100,
              .unit = "%",
              .is_modelled = true,
              .n = kLayers,
              .goal = jal::bench::Goal{"<=", 5}});
  report.add({.bench = "slice",
              .name = "layer_latency_gpt_oss",
              .value = time.whole / 1e6,
              .unit = "us",
              .is_modelled = true,
              .n = kLayers,
              .reference = jal::bench::Reference{"published 0.69 ms a token: 18.5 us a layer", kPublishedUs}});
}

}  // namespace

int main(int argc, char** argv) {
  jal::bench::Report report(argc, argv);
  return jal::bench::with_chip([&](const jal::Device& device) { run(report, device); });
}
