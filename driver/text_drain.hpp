// What kernels print: takes whole records out of a client's text ring. Contract: jal/abi/session.h.
//
// Without a sink the text goes to standard error, a line a record. What it is not: a log. Invariant: what the ring says
// is checked; a ring that contradicts itself is skipped to its head, never followed. Threads: drain() from any; one at
// a time gets in, the others leave it the work.
#pragma once
#include <jal/abi/session.h>

#include <atomic>
#include <functional>
#include <mutex>
#include <string>

namespace jal::drv {

class TextDrain {
 public:
  /// (core, text); core is UINT32_MAX for what no core said: "... records were lost".
  using Sink = std::function<void(std::uint32_t core, const char* text, std::uint64_t bytes)>;

  /// `device` is for the lines on standard error: "device 0 core 3: ...".
  TextDrain(jal_text_ring& ring, std::uint32_t device) : ring_(ring), device_(device) {}

  /// Two loads; call it after every step.
  bool has_text() const {
    return std::atomic_ref(ring_.head).load(std::memory_order_acquire) !=
           std::atomic_ref(ring_.tail).load(std::memory_order_relaxed);
  }
  void drain();
  /// Empty: standard error. Waits for a running call of the old sink.
  void set_sink(Sink sink);

 private:
  void deliver(std::uint32_t core, const std::string& text) const;

  jal_text_ring& ring_;
  const std::uint32_t device_;
  std::mutex mutex_;
  Sink sink_;
  std::string text_;
  std::uint64_t dropped_told_ = 0;
};

}  // namespace jal::drv
