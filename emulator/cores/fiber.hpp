// Fibers: a stack and a saved context on which one core's kernel runs until it blocks or ends.
//
// What it is not: a thread. A fiber runs on whichever worker resumes it. Switching is Boost.Context's (about 10 ns),
// announced to AddressSanitizer and ThreadSanitizer. Invariant: a fiber is resumed only while suspended; resume()
// returns when it suspends or ends. A fiber also owns the host memory of the L1 of the core that runs on it: cores that
// do not block share one, one after the other.
#pragma once
#include <boost/context/detail/fcontext.hpp>
#include <cstddef>
#include <cstdint>

namespace jal::emu {

class Fiber {
 public:
  using Entry = void (*)(void* argument);

  Fiber(std::size_t stack_bytes, std::size_t l1_bytes);
  ~Fiber();
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;

  /// Makes the next resume() call entry(argument). What the stack held is forgotten.
  void prepare(Entry entry, void* argument);
  /// Runs it on this thread until it suspends or its entry returns.
  void resume();
  /// Called on the fiber: back to resume().
  void suspend();
  /// Called on the fiber, or on a signal's trampoline after it left the fiber: never comes back.
  [[noreturn]] void abandon();

  std::byte* l1() const { return l1_; }
  /// Lowest address of the suspended fiber's frames.
  const std::byte* stack_top() const { return static_cast<const std::byte*>(own_); }
  /// Makes the L1 zero again; costs what was touched.
  void scrub_l1();
  const std::byte* stack_low() const { return stack_; }
  const std::byte* stack_high() const { return stack_ + stack_bytes_; }
  std::uint32_t l1_client = UINT32_MAX;  ///< whose data the L1 may hold

 private:
  static void start(boost::context::detail::transfer_t from);

  const std::size_t stack_bytes_, l1_bytes_;
  std::byte* stack_map_;  // guard page, then the stack
  std::byte* stack_;
  std::byte* l1_;
  boost::context::detail::fcontext_t own_ = nullptr;     // where the fiber stands
  boost::context::detail::fcontext_t caller_ = nullptr;  // where resume() stands
  Entry entry_ = nullptr;
  void* argument_ = nullptr;
  // Sanitizers' view of the two stacks.
  void* fake_stack_ = nullptr;
  void* caller_fake_stack_ = nullptr;
  const void* caller_stack_ = nullptr;
  std::size_t caller_stack_bytes_ = 0;
  void* tsan_fiber_ = nullptr;
  void* tsan_caller_ = nullptr;
};

}  // namespace jal::emu
