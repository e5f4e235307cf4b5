// What this machine can do in this run: the yardstick that benchmark goals are ratios of.
//
// Not a benchmark of the SDK. Invariant: figures are taken in the calling process, now; nothing is cached, since the
// two virtual CPUs of a shared host move between near and far while we look. Format of the printed line:
// docs/benchmarks.md.
#pragma once

#include <cstddef>
#include <string>

namespace jal::bench {

struct Machine {
  std::string isa;          // widest of avx512bf16, avx512, avx2, baseline
  unsigned cores = 0;       // that this process may use
  double ping_pong_ns = 0;  // one way of a cache line between two cores; 0 with one core
  double read_gbps_1t = 0;  // best of several rounds, 1e9 bytes per second
  double read_gbps_2t = 0;  // two threads, each on its half; 0 with one core
  std::string placement;    // "near" below 100 ns one way, else "far"; "one" with one core
};

// Takes about 0.6 s and 256 MiB.
Machine measure_machine();

// Bandwidth of reading `size_bytes` of ordinary memory (huge pages where the system gives them) with `threads` threads,
// each on its own share and core: the best of `rounds` passes, because it stands for a limit.
double measure_read_gbps(unsigned threads, std::size_t size_bytes, unsigned rounds);

// Median one-way time of a cache line between the first two usable cores; 0 with one core.
double measure_ping_pong_ns();

// Where the two cores are now: "near", "far", or "one" when there is only one. Takes about 0.1 s.
std::string measure_placement();

}  // namespace jal::bench
