// Host threads that run cores, shared by the chips of an instance.
//
// What it is not: a task queue. run() gives one function to all workers at once; the calling thread is worker 0. A
// second caller at the same time (another chip) runs alone instead of waiting. Invariant: a pool of n threads means at
// most n - 1 own ones, made when first needed; between jobs they sleep on a futex: no wake-ups, no CPU time.
#pragma once
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace jal::emu {

class WorkerPool {
 public:
  explicit WorkerPool(std::uint32_t threads);
  ~WorkerPool();
  WorkerPool(const WorkerPool&) = delete;
  WorkerPool& operator=(const WorkerPool&) = delete;

  std::uint32_t threads() const { return threads_; }

  /// Calls work(worker) on the caller as worker 0 and, when `wide` and nobody else runs, on the others as 1 ..
  /// threads() - 1; returns when every started call has returned. `work` must not throw and must return once the job is
  /// over, also for a late worker.
  void run(bool wide, const std::function<void(std::uint32_t worker)>& work);

 private:
  void serve(std::uint32_t worker);

  const std::uint32_t threads_;
  std::mutex busy_;  // held while a wide job runs
  std::mutex mutex_;
  std::condition_variable wake_;
  std::vector<std::thread> own_;
  const std::function<void(std::uint32_t)>* work_ = nullptr;
  std::uint64_t generation_ = 0;
  std::atomic<std::uint32_t> running_{0};
  bool is_ending_ = false;
};

}  // namespace jal::emu
