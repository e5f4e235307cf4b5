// Host threads that run cores, shared by the chips of an instance.
//
// Invariant: a pool of n threads means n - 1 own ones, since the thread that steps a device works too.
#pragma once
#include <cstdint>

namespace jal::emu {

class WorkerPool {
 public:
  explicit WorkerPool(std::uint32_t threads) : threads_(threads) {}
  std::uint32_t threads() const { return threads_; }

 private:
  const std::uint32_t threads_;
};

}  // namespace jal::emu
