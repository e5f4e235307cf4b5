// Yardsticks of the host: see machine.hpp.
#include "tests/bench/machine.hpp"

#include <sched.h>
#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <new>
#include <thread>
#include <vector>

namespace jal::bench {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

std::vector<int> usable_cores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  sched_getaffinity(0, sizeof set, &set);
  std::vector<int> cores;
  for (int core = 0; core < CPU_SETSIZE; ++core) {
    if (CPU_ISSET(core, &set)) cores.push_back(core);
  }
  return cores;
}

void pin_this_thread(int core) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(core, &set);
  sched_setaffinity(0, sizeof set, &set);
}

// Anonymous memory with huge pages asked for; every page is written, so that reading it is reading DRAM.
class Memory {
 public:
  explicit Memory(std::size_t size_bytes) : size_bytes_(size_bytes) {
    void* at = mmap(nullptr, size_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED) throw std::bad_alloc();
    madvise(at, size_bytes, MADV_HUGEPAGE);
    std::memset(at, 1, size_bytes);
    words_ = static_cast<const std::uint64_t*>(at);
  }
  ~Memory() { munmap(const_cast<std::uint64_t*>(words_), size_bytes_); }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;
  const std::uint64_t* words() const { return words_; }

 private:
  std::size_t size_bytes_;
  const std::uint64_t* words_;
};

// The compiler vectorises this for each clone; prefetching 4 KiB ahead is worth 10 % here (measured).
__attribute__((target_clones("avx512f", "avx2", "default"), optimize("O3"))) std::uint64_t sum_words(
    const std::uint64_t* at, std::size_t count) {
  constexpr std::size_t kLine =
      64;  // words a step: eight cache lines, enough independent sums to hide the latency of adding
  std::uint64_t sums[kLine] = {};
  for (std::size_t i = 0; i + kLine <= count; i += kLine) {
    for (std::size_t line = 0; line < kLine; line += 8) __builtin_prefetch(at + i + line + 512);
    for (std::size_t j = 0; j < kLine; ++j) sums[j] += at[i + j];
  }
  std::uint64_t sum = 0;
  for (std::uint64_t part : sums) sum += part;
  return sum;
}

std::string widest_isa() {
  if (__builtin_cpu_supports("avx512bf16")) return "avx512bf16";
  if (__builtin_cpu_supports("avx512f")) return "avx512";
  if (__builtin_cpu_supports("avx2")) return "avx2";
  return "baseline";
}

std::string placement_of(double ping_pong_ns) {
  constexpr double kNearLimitNs = 100;  // near was seen at 27 to 52 ns, far at 205 to 250 ns
  if (usable_cores().size() < 2) return "one";
  return ping_pong_ns < kNearLimitNs ? "near" : "far";
}

}  // namespace

double measure_read_gbps(unsigned threads, std::size_t size_bytes, unsigned rounds) {
  const Memory memory(size_bytes);
  const std::vector<int> cores = usable_cores();
  const std::size_t share = size_bytes / sizeof(std::uint64_t) / threads;
  std::atomic<std::uint64_t> sink{0};
  std::atomic<unsigned> ready{0};
  std::atomic<unsigned> round_open{0};
  std::atomic<unsigned> done{0};
  std::vector<std::thread> readers;
  for (unsigned t = 0; t < threads; ++t) {
    readers.emplace_back([&, t] {
      pin_this_thread(cores[t % cores.size()]);
      ++ready;
      for (unsigned round = 1; round <= rounds; ++round) {
        while (round_open.load(std::memory_order_acquire) < round) std::this_thread::yield();
        sink += sum_words(memory.words() + t * share, share);
        done.fetch_add(1, std::memory_order_release);
      }
    });
  }
  while (ready.load() < threads) std::this_thread::yield();
  double best_s = 1e9;
  for (unsigned round = 1; round <= rounds; ++round) {
    const Clock::time_point start = Clock::now();
    round_open.store(round, std::memory_order_release);
    // Sleeping in short steps leaves both cores to the readers; 20 us is below 1 % of a round.
    while (done.load(std::memory_order_acquire) < round * threads)
      std::this_thread::sleep_for(std::chrono::microseconds(20));
    best_s = std::min(best_s, seconds_since(start));
  }
  for (std::thread& reader : readers) reader.join();
  return static_cast<double>(share * threads * sizeof(std::uint64_t)) / best_s / 1e9;
}

double measure_ping_pong_ns() {
  const std::vector<int> cores = usable_cores();
  if (cores.size() < 2) return 0;
  constexpr int kRounds = 21;
  constexpr std::uint32_t kTrips = 5000;
  alignas(64) std::atomic<std::uint32_t> ball{0};
  std::thread partner([&] {
    pin_this_thread(cores[1]);
    for (std::uint32_t want = 1; want < 2 * kTrips * kRounds; want += 2) {
      while (ball.load(std::memory_order_acquire) != want) {
      }
      ball.store(want + 1, std::memory_order_release);
    }
  });
  std::vector<double> one_way_ns;
  std::thread server([&] {
    pin_this_thread(cores[0]);
    std::uint32_t next = 1;
    for (int round = 0; round < kRounds; ++round) {
      const Clock::time_point start = Clock::now();
      for (std::uint32_t trip = 0; trip < kTrips; ++trip, next += 2) {
        ball.store(next, std::memory_order_release);
        while (ball.load(std::memory_order_acquire) != next + 1) {
        }
      }
      one_way_ns.push_back(seconds_since(start) * 1e9 / (2.0 * kTrips));
    }
  });
  server.join();
  partner.join();
  std::nth_element(one_way_ns.begin(), one_way_ns.begin() + kRounds / 2, one_way_ns.end());
  return one_way_ns[kRounds / 2];
}

std::string measure_placement() { return placement_of(measure_ping_pong_ns()); }

Machine measure_machine() {
  constexpr std::size_t kSizeBytes = std::size_t{256} << 20;  // several times any last-level cache share seen
  constexpr unsigned kRounds = 7;
  Machine machine;
  machine.isa = widest_isa();
  machine.cores = static_cast<unsigned>(usable_cores().size());
  machine.ping_pong_ns = measure_ping_pong_ns();
  machine.read_gbps_1t = measure_read_gbps(1, kSizeBytes, kRounds);
  machine.read_gbps_2t = machine.cores > 1 ? measure_read_gbps(2, kSizeBytes, kRounds) : 0;
  machine.placement = placement_of(machine.ping_pong_ns);
  return machine;
}

}  // namespace jal::bench
