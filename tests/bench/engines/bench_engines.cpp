// Speed of the engines' kernels on the host: GEMV against the memory's read bandwidth of this run, GEMM, attention.
//
// Not a benchmark of the chip: no clock, no queue. JAL_ISA chooses the instruction set. Cases ending in _l2 keep the
// weights in the second-level cache of one core: what the kernel could do with faster memory.
#include <sched.h>
#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <new>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "emulator/engines/engines.hpp"
#include "tests/bench/machine.hpp"
#include "tests/bench/report.hpp"

namespace {

using namespace jal::emu;
using Clock = std::chrono::steady_clock;

/// Huge pages where the system gives them: what the emulator's memory of weights has too.
class Memory {
 public:
  explicit Memory(std::size_t bytes) : bytes_((bytes + 4096) / 4096 * 4096 + 4096) {
    at_ = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (at_ == MAP_FAILED) throw std::bad_alloc();
    madvise(at_, bytes_, MADV_HUGEPAGE);
    std::memset(at_, 0, bytes_);
  }
  ~Memory() { munmap(at_, bytes_); }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;
  std::uint8_t* bytes() const { return static_cast<std::uint8_t*>(at_); }
  float* floats() const { return static_cast<float*>(at_); }

 private:
  std::size_t bytes_;
  void* at_;
};

void pin(unsigned core) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(core % std::thread::hardware_concurrency(), &set);
  sched_setaffinity(0, sizeof set, &set);
}

/// Seconds of each of `rounds` rounds in which `threads` threads run work(thread) at the same time.
std::vector<double> time_rounds(unsigned threads, int rounds, const std::function<void(unsigned)>& work) {
  std::atomic<int> open{0};
  std::atomic<unsigned> done{0};
  std::vector<std::thread> workers;
  for (unsigned t = 0; t < threads; ++t) {
    workers.emplace_back([&, t] {
      pin(t);
      for (int round = 1; round <= rounds; ++round) {
        while (open.load(std::memory_order_acquire) < round) std::this_thread::yield();
        work(t);
        done.fetch_add(1, std::memory_order_release);
      }
    });
  }
  std::vector<double> seconds;
  for (int round = 1; round <= rounds; ++round) {
    const Clock::time_point start = Clock::now();
    open.store(round, std::memory_order_release);
    while (done.load(std::memory_order_acquire) < static_cast<unsigned>(round) * threads) {
      std::this_thread::sleep_for(std::chrono::microseconds(20));
    }
    seconds.push_back(std::chrono::duration<double>(Clock::now() - start).count());
  }
  for (std::thread& worker : workers) worker.join();
  // The first round warms caches and scratch buffers.
  if (seconds.size() > 1) seconds.erase(seconds.begin());
  return seconds;
}

void fill(float* x, std::size_t n) {
  std::mt19937 rng(1);
  std::normal_distribution<float> normal;
  for (std::size_t i = 0; i < n; ++i) x[i] = normal(rng);
}

/// A tile whose rows repeat a packed sample of 64 rows: values do not change the speed, packing time does.
void fill_tile(WeightFormat format, std::uint32_t rows, std::uint32_t k, std::uint8_t* tile) {
  const std::uint32_t sample_rows = std::min(rows, 64u);
  std::vector<float> w(std::size_t{sample_rows} * k);
  fill(w.data(), w.size());
  const std::size_t blocks = block_count(k);
  Memory sample(weight_tile_bytes(format, sample_rows, k));
  pack_f32(format, w.data(), k, sample_rows, k, sample.bytes());
  if (format == WeightFormat::bf16) {
    for (std::uint32_t r = 0; r < rows; ++r) {
      std::memcpy(tile + r * blocks * 64, sample.bytes() + r % sample_rows * blocks * 64, blocks * 64);
    }
    return;
  }
  const std::size_t code_bytes = format == WeightFormat::mxfp8 ? 32 : 16;
  std::vector<std::uint8_t> codes(sample_rows * blocks * code_bytes);
  std::vector<std::uint8_t> scales(sample_rows * blocks);
  unpack_mx(format, sample.bytes(), sample_rows, k, codes.data(), scales.data());
  std::vector<std::uint8_t> all_codes(rows * blocks * code_bytes);
  std::vector<std::uint8_t> all_scales(rows * blocks);
  for (std::uint32_t r = 0; r < rows; ++r) {
    const std::size_t from = r % sample_rows;
    std::copy_n(codes.begin() + from * blocks * code_bytes, blocks * code_bytes,
                all_codes.begin() + r * blocks * code_bytes);
    std::copy_n(scales.begin() + from * blocks, blocks, all_scales.begin() + r * blocks);
  }
  pack_mx(format, all_codes.data(), all_scales.data(), rows, k, tile);
}

struct Kind {
  const char* name;
  WeightFormat weights;
  ActivationFormat activations;
  double goal_avx512;
  double goal_avx2;
};
// Goals: shares of the two-thread read bandwidth of the run.
constexpr Kind kKinds[] = {{"bf16", WeightFormat::bf16, ActivationFormat::f32, 0.8, 0.8},
                           {"mxfp8", WeightFormat::mxfp8, ActivationFormat::bf16, 0.6, 0.6},
                           {"mxfp4", WeightFormat::mxfp4, ActivationFormat::bf16, 0.7, 0.45}};

bool wide_isa() { return current_isa() == Isa::avx512 || current_isa() == Isa::avx512_bf16; }

double gemv_gbps(const Kind& kind, unsigned threads, std::size_t share_bytes, std::uint32_t k, std::uint32_t tile_rows,
                 int rounds, int passes) {
  const std::size_t tile_bytes = weight_tile_bytes(kind.weights, tile_rows, k);
  const std::size_t tiles = std::max<std::size_t>(1, share_bytes / tile_bytes);
  Memory weights(tile_bytes * tiles * threads);
  fill_tile(kind.weights, tile_rows, k, weights.bytes());
  for (std::size_t i = 1; i < tiles * threads; ++i) {
    std::memcpy(weights.bytes() + i * tile_bytes, weights.bytes(), tile_bytes);
  }
  std::vector<float> x(k);
  fill(x.data(), k);
  Memory operand_memory(operand_bytes(kind.activations, k, 1));
  const Operand* operand = prepare_operand(kind.activations, x.data(), k, k, 1, operand_memory.bytes());
  Memory y(std::size_t{tile_rows} * threads * 4 + 8192);
  const std::vector<double> seconds = time_rounds(threads, rounds + 1, [&](unsigned t) {
    for (int pass = 0; pass < passes; ++pass) {
      for (std::size_t i = 0; i < tiles; ++i) {
        gemm(kind.weights, kind.activations, weights.bytes() + (t * tiles + i) * tile_bytes, tile_rows, k, operand, 1,
             y.floats() + t * (tile_rows + 64), tile_rows);
      }
    }
  });
  const double bytes = static_cast<double>(weight_payload_bytes(kind.weights, tile_rows, k)) *
                       static_cast<double>(tiles * threads * static_cast<unsigned>(passes));
  return bytes / jal::bench::median(seconds) / 1e9;
}

double gemm_gflops(const Kind& kind, unsigned threads, std::uint32_t m, std::uint32_t rows, std::uint32_t k) {
  const std::size_t tile_bytes = weight_tile_bytes(kind.weights, rows, k);
  Memory weights(tile_bytes);
  fill_tile(kind.weights, rows, k, weights.bytes());
  std::vector<float> x(std::size_t{m} * k);
  fill(x.data(), x.size());
  Memory operand_memory(operand_bytes(kind.activations, k, m));
  const Operand* operand = prepare_operand(kind.activations, x.data(), k, k, m, operand_memory.bytes());
  Memory y(std::size_t{m} * rows * threads * 4);
  const std::vector<double> seconds = time_rounds(threads, 6, [&](unsigned t) {
    gemm(kind.weights, kind.activations, weights.bytes(), rows, k, operand, m, y.floats() + std::size_t{t} * m * rows,
         rows);
  });
  return 2.0 * m * rows * k * threads / jal::bench::median(seconds) / 1e9;
}

/// 64 query heads over 8 KV heads of 64 dimensions, 4096 tokens in pages of 64: microseconds for one query token.
double attention_us(unsigned threads) {
  constexpr std::uint32_t kHeads = 8, kGroup = 8, kD = 64, kTokens = 4096, kPage = 64, kPages = kTokens / kPage;
  std::vector<std::uint16_t> cache(std::size_t{2} * kHeads * kTokens * kD);
  std::vector<float> values(cache.size());
  fill(values.data(), values.size());
  vec_bf16_from_f32(values.data(), cache.data(), cache.size());
  std::vector<float> q(kHeads * kGroup * kD);
  fill(q.data(), q.size());
  std::vector<float> y(q.size());
  const std::vector<double> seconds = time_rounds(threads, 31, [&](unsigned t) {
    thread_local std::vector<float> m(kPages * kGroup), l(kPages * kGroup), o(kPages * kGroup * kD);
    for (std::uint32_t head = t; head < kHeads; head += threads) {
      SoftmaxParts parts[kPages];
      for (std::uint32_t p = 0; p < kPages; ++p) {
        parts[p] = {&m[p * kGroup], &l[p * kGroup], &o[p * kGroup * kD], kD};
        const std::uint16_t* keys = &cache[(std::size_t{head} * kTokens + p * kPage) * kD];
        attention_page({&q[head * kGroup * kD], kD, kGroup, kD, nullptr, 0.125f},
                       {keys, keys + std::size_t{kHeads} * kTokens * kD, kD, kD, kPage}, parts[p]);
      }
      softmax_merge_tree(parts, kPages, kGroup, kD);
      softmax_finish(parts[0], kGroup, kD, &y[head * kGroup * kD], kD);
    }
  });
  return jal::bench::median(seconds) * 1e6;
}

}  // namespace

int main(int argc, char** argv) {
  jal::bench::Report report(argc, argv);
  const unsigned cores = std::max(1u, std::min(2u, std::thread::hardware_concurrency()));
  std::fprintf(stderr, "bench_engines: kernels of %s\n", isa_name(current_isa()));
  for (const Kind& kind : kKinds) {
    for (const std::uint32_t k : {2880u, 576u}) {
      const std::string name = std::string("gemv_") + kind.name + (k == 2880 ? "" : "_k576");
      if (!report.wants(name)) continue;
      // Tiles as a chip's core holds them: 45 of 2880 rows, 9 of 576. The yardstick is taken beside each case.
      const double limit = jal::bench::measure_read_gbps(cores, std::size_t{256} << 20, 5);
      const double gbps = gemv_gbps(kind, cores, std::size_t{128} << 20, k, k / 64, 9, 1);
      report.add({.bench = "engines",
                  .name = name,
                  .value = gbps,
                  .unit = "GB/s",
                  .lower_is_better = false,
                  .n = 9,
                  .reference = jal::bench::Reference{"read bandwidth of the same run, as many threads", limit},
                  .goal = jal::bench::Goal{">=", wide_isa() ? kind.goal_avx512 : kind.goal_avx2}});
    }
    const std::string cached = std::string("gemv_") + kind.name + "_l2";
    if (report.wants(cached)) {
      const double gbps = gemv_gbps(kind, 1, std::size_t{300} << 10, 2880, 45, 21, 50);
      report.add(
          {.bench = "engines", .name = cached, .value = gbps, .unit = "GB/s", .lower_is_better = false, .n = 21});
    }
    const std::string cached_small = std::string("gemv_") + kind.name + "_k576_l2";
    if (report.wants(cached_small)) {
      const double gbps = gemv_gbps(kind, 1, std::size_t{300} << 10, 576, 9, 21, 50);
      report.add(
          {.bench = "engines", .name = cached_small, .value = gbps, .unit = "GB/s", .lower_is_better = false, .n = 21});
    }
  }
  for (const Kind& kind : kKinds) {
    for (const unsigned threads : {1u, cores}) {
      const std::string name = std::string("gemm_") + kind.name + "_" + std::to_string(threads) + "t";
      if (report.wants(name)) {
        report.add({.bench = "engines",
                    .name = name,
                    .value = gemm_gflops(kind, threads, 512, 720, 2880),
                    .unit = "GFLOP/s",
                    .lower_is_better = false,
                    .n = 5});
      }
      const std::string small = name + "_9rows_k576";
      if (report.wants(small)) {
        report.add({.bench = "engines",
                    .name = small,
                    .value = gemm_gflops(kind, threads, 128, 9, 576),
                    .unit = "GFLOP/s",
                    .lower_is_better = false,
                    .n = 5});
      }
      if (threads == cores) break;
    }
  }
  for (const unsigned threads : {1u, cores}) {
    const std::string name = "attention_decode_" + std::to_string(threads) + "t";
    if (report.wants(name)) {
      report.add({.bench = "engines", .name = name, .value = attention_us(threads), .unit = "us", .n = 30});
    }
    if (threads == cores) break;
  }
  report.add_machine();
  return 0;
}
