// Worker threads. See worker_pool.hpp.
#include "emulator/cores/worker_pool.hpp"

#include <pthread.h>
#include <signal.h>

#include "emulator/cores/spin.hpp"

namespace jal::emu {

WorkerPool::WorkerPool(std::uint32_t threads) : threads_(threads == 0 ? 1 : threads) {}

WorkerPool::~WorkerPool() {
  {
    const std::lock_guard lock(mutex_);
    is_ending_ = true;
  }
  wake_.notify_all();
  for (std::thread& thread : own_) thread.join();
}

void WorkerPool::serve(std::uint32_t worker) {
  std::uint64_t seen = 0;
  for (;;) {
    const std::function<void(std::uint32_t)>* work = nullptr;
    {
      std::unique_lock lock(mutex_);
      wake_.wait(lock, [&] { return is_ending_ || generation_ != seen; });
      if (is_ending_) return;
      seen = generation_;
      work = work_;
    }
    // A worker that woke after the job was over finds no work and must not touch it.
    if (work == nullptr) continue;
    (*work)(worker);
    running_.fetch_sub(1, std::memory_order_release);  // pairs with the acquire in run()
  }
}

void WorkerPool::run(bool wide, const std::function<void(std::uint32_t)>& work) {
  std::unique_lock busy(busy_, std::defer_lock);
  if (threads_ == 1 || !wide || !busy.try_lock()) {
    work(0);
    return;
  }
  {
    const std::lock_guard lock(mutex_);
    if (own_.empty()) {
      // The program's signals are for its own threads; faults are synchronous and still arrive.
      sigset_t all, old;
      sigfillset(&all);
      for (const int fault : {SIGSEGV, SIGBUS, SIGFPE, SIGILL}) sigdelset(&all, fault);
      sigdelset(&all, SIGRTMAX - 3);  // the watchdog's (guard.cpp)
      pthread_sigmask(SIG_SETMASK, &all, &old);
      for (std::uint32_t worker = 1; worker < threads_; ++worker) own_.emplace_back([this, worker] { serve(worker); });
      pthread_sigmask(SIG_SETMASK, &old, nullptr);
    }
    work_ = &work;
    ++generation_;
    running_.store(threads_ - 1, std::memory_order_relaxed);
  }
  wake_.notify_all();
  work(0);
  Backoff backoff;
  while (running_.load(std::memory_order_acquire) != 0) backoff.pause();
  const std::lock_guard lock(mutex_);
  work_ = nullptr;
}

}  // namespace jal::emu
