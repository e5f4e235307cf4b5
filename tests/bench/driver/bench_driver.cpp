// Host costs of the path from a call of libjal to a packet in the ring, and of the round trip through the firmware.
//
// Enqueue cases time calls alone: the ring has room for a whole batch and nobody runs the device meanwhile. Round trips
// are enqueue and synchronise on one thread, so they hold the emulator's work too: the copy, or one kernel on one core.
#include <stdlib.h>

#include <chrono>
#include <cstdio>
#include <filesystem>
#include <functional>
#include <jal/jal.hpp>
#include <string>
#include <vector>

#include "tests/bench/report.hpp"

namespace {

constexpr int kRounds = 41;
constexpr int kBatch = 2048;

double ns_of(const std::function<void()>& work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double, std::nano>(std::chrono::steady_clock::now() - start).count();
}

/// Median ns of one call in batches of `count`, with `after` outside the time.
jal::bench::Record measure(const std::string& name, int count, const std::function<void()>& call,
                           const std::function<void()>& after) {
  std::vector<double> samples;
  for (int round = 0; round < kRounds; ++round) {
    samples.push_back(ns_of([&] {
                        for (int i = 0; i < count; ++i) call();
                      }) /
                      count);
    after();
  }
  jal::bench::Record record;
  record.bench = "driver";
  record.name = name;
  record.value = jal::bench::median(samples);
  record.unit = "ns";
  record.n = kRounds;
  return record;
}

int run(jal::bench::Report& report) {
  jal_init_options library_options{};
  library_options.model = "jal1-a0";
  const jal::Library library(library_options);
  const jal::Device device;
  jal_stream_options options{};
  options.depth = 4096;
  options.argument_bytes = 1u << 20;
  options.flags = JAL_STREAM_NO_WAIT;  // a full ring would be an error of this program, not a wait inside the time
  jal::Stream stream = device.stream(options);
  const auto drain = [&] { stream.synchronize(); };

  auto packet = measure(
      "enqueue_packet", kBatch, [&] { stream.count_tokens(JAL_PHASE_PREFILL, 1); }, drain);
  packet.goal = {"<=", 100};  // the driver's limit for one packet
  report.add(packet);

  const jal::Event event = device.event();
  report.add(measure(
      "enqueue_event_record", kBatch, [&] { stream.record(event); }, drain));

  const auto shape = jal::TensorInfo(JAL_DTYPE_F32, {64}).shard(0, 1);
  const jal::Tensor x = device.tensor(shape), y = device.tensor(shape);
  const std::string kernels =
      (std::filesystem::read_symlink("/proc/self/exe").parent_path() / "../share/jal/samples/axpy.jko").string();
  const jal::Module module = device.load(kernels);
  const jal::Kernel axpy = module.kernel("axpy");
  // On a core without data, so that the round trip is dispatch and nothing else; two tensors and a number to pack.
  const auto launch = [&] { stream.launch(axpy, 2, x, y, 0.0f); };
  report.add(measure("enqueue_launch", 1024, launch, drain));

  const auto packet_and_wait = [&] {
    stream.count_tokens(JAL_PHASE_PREFILL, 1);
    stream.synchronize();
  };
  report.add(measure("round_trip_packet", 256, packet_and_wait, drain));
  const auto launch_and_wait = [&] {
    launch();
    stream.synchronize();
  };
  report.add(measure("round_trip_launch", 256, launch_and_wait, drain));
  const jal::Memory memory = device.alloc_on_slice(0, 4096);
  std::vector<char> host(4096);
  const jal_address_t address = memory.address();
  report.add(measure(
      "round_trip_copy_4k", 256, [&] { device.copy_to_device(address, host.data(), host.size()); }, drain));
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  jal::bench::Report report(argc, argv);
  char directory[] = "/tmp/jal-bench-XXXXXX";
  setenv("JAL_RUNTIME_DIR", mkdtemp(directory), 1);
  int status = 2;
  try {
    status = run(report);
  } catch (const jal::Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
  }
  std::filesystem::remove_all(directory);
  report.add_machine();
  return status;
}
