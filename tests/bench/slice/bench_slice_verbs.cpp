// Host time of one SDK verb: a kernel that calls it many times on one core, less the same kernel that calls it never.
//
// Not the chip's time. The verbs are the cheap ones on the smallest tiles: what is left is the emulator's own work.
#include <algorithm>
#include <chrono>
#include <vector>

#include "tests/bench/machine.hpp"
#include "tests/bench/slice/kernels/loops.h"
#include "tests/bench/slice/session.hpp"

namespace {

// Short against a time slice of the system, so that the median is of launches that nobody interrupted.
constexpr std::uint32_t kCalls = 4'000;
constexpr int kRounds = 101;
constexpr double kGoalNs = 20;

struct Verb {
  const char* name;
  std::uint32_t verb;
};
constexpr Verb kVerbs[] = {{"add", JAL_LOOP_ADD},   {"load", JAL_LOOP_LOAD}, {"store", JAL_LOOP_STORE},
                           {"gemm", JAL_LOOP_GEMM}, {"wait", JAL_LOOP_WAIT}, {"alloc", JAL_LOOP_ALLOC}};

void run(jal::bench::Report& report, const jal::Device& device) {
  const jal::Module module = device.load(jal::bench::kernels_path("bench_loops.jko"));
  const jal::Kernel kernel = module.kernel("verb_loop");
  jal::Stream stream = device.stream();
  const jal::Memory memory = device.alloc_on_slice(0, 4096);
  const jal::Address buffer{memory.address()};
  const auto launch_ns = [&](std::uint32_t verb, std::uint32_t count) {
    const auto start = std::chrono::steady_clock::now();
    stream.launch(kernel, 1, verb, count, buffer);
    stream.synchronize();
    return std::chrono::duration<double, std::nano>(std::chrono::steady_clock::now() - start).count();
  };
  std::vector<double> samples[std::size(kVerbs)];
  // Verb after verb in every round: a machine that changes its state changes it for all.
  for (int round = 0; round < kRounds; ++round) {
    for (std::size_t i = 0; i < std::size(kVerbs); ++i) {
      if (!report.wants(std::string("verb_ns.") + kVerbs[i].name)) continue;
      (void)launch_ns(kVerbs[i].verb, 0);  // after a long launch the emulator calls a second thread
      const double without = launch_ns(kVerbs[i].verb, 0);
      samples[i].push_back((launch_ns(kVerbs[i].verb, kCalls) - without) / kCalls);
    }
  }
  const std::string placement = jal::bench::measure_placement();
  std::vector<double> medians;
  for (std::size_t i = 0; i < std::size(kVerbs); ++i) {
    if (samples[i].empty()) continue;
    medians.push_back(jal::bench::median(samples[i]));
    report.add({.bench = "slice",
                .name = std::string("verb_ns.") + kVerbs[i].name,
                .value = medians.back(),
                .unit = "ns",
                .n = kRounds,
                .placement = placement});
  }
  if (medians.size() < std::size(kVerbs)) return;  // --only: a median of some would be another figure
  report.add({.bench = "slice",
              .name = "verb_ns",
              .value = jal::bench::median(medians),
              .unit = "ns",
              .n = kRounds,
              .goal = jal::bench::Goal{"<=", kGoalNs},
              .placement = placement});
}

}  // namespace

int main(int argc, char** argv) {
  jal::bench::Report report(argc, argv);
  return jal::bench::with_chip([&](const jal::Device& device) { run(report, device); });
}
