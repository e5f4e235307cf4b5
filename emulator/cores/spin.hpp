// Short waits between threads that run one dispatch: a spin lock and a polite back-off.
#pragma once
#include <immintrin.h>
#include <sched.h>
#include <time.h>

#include <atomic>
#include <cstdint>

namespace jal::emu {

/// Held for tens of ns, never across a switch of fibers.
class SpinLock {
 public:
  void lock() {
    while (flag_.exchange(true, std::memory_order_acquire)) {
      for (int i = 0; flag_.load(std::memory_order_relaxed); ++i) {
        _mm_pause();
        if (i == 1000) sched_yield(), i = 0;  // the holder may have lost its CPU
      }
    }
  }
  void unlock() { flag_.store(false, std::memory_order_release); }

 private:
  std::atomic<bool> flag_{false};
};

/// Spins some 50 us, then gives the CPU away, then sleeps: another worker's segment may take long, and this CPU may be
/// wanted.
class Backoff {
 public:
  void pause() {
    if (++count_ < 2000) {
      _mm_pause();
    } else if (count_ < 2200) {
      sched_yield();
    } else {
      const timespec t{0, 50'000};
      nanosleep(&t, nullptr);
    }
  }
  void reset() { count_ = 0; }

 private:
  std::uint32_t count_ = 0;
};

}  // namespace jal::emu
