// Host memory that the chips of one instance may take for HBM that was granted.
//
// What it is not: a measure of what is resident: a grant is charged whole, since its client may touch it at any time.
// Invariant: used <= limit at every moment. Threads: charge and refund from any.
#pragma once
#include <atomic>
#include <cstdint>
#include <string>

namespace jal::emu {

class HostBudget {
 public:
  explicit HostBudget(std::uint64_t limit_bytes) : limit_(limit_bytes) {}

  /// Charges bytes and returns true, or changes nothing and returns false.
  bool charge(std::uint64_t bytes) noexcept;
  void refund(std::uint64_t bytes) noexcept { used_.fetch_sub(bytes, std::memory_order_relaxed); }

  std::uint64_t limit() const noexcept { return limit_; }
  std::uint64_t used() const noexcept { return used_.load(std::memory_order_relaxed); }

 private:
  const std::uint64_t limit_;
  std::atomic<std::uint64_t> used_{0};
};

/// 80 % of the smaller of physical memory and the limits of the control groups (version 1 or 2) this process is in.
std::uint64_t default_host_budget_bytes();

/// "512M", "20G", "1048576": a whole number, then nothing or one of K M G T (powers of 1024). False: not understood or
/// 0.
bool parse_bytes(const std::string& text, std::uint64_t* out);

/// "1.50 GiB", for messages.
std::string bytes_text(std::uint64_t bytes);

}  // namespace jal::emu
