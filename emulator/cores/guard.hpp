// Keeping a kernel's faults and loops away from the process: signal handlers and a watchdog.
//
// A memory or arithmetic fault in a kernel's own code ends its dispatch with KERNEL_FAULT; a kernel that runs past its
// deadline is left, also from an endless loop, with KERNEL_DEADLINE. Faults anywhere else go on to the handlers that
// were there before. Invariant: a fiber is left only from kernel code, never from a verb (which may hold a lock). The
// watchdog thread exists once a deadline was needed, and sleeps without wake-ups while nothing runs.
#pragma once
#include <cstdint>

namespace jal::emu {

class Job;

/// Installs the handlers (once per process) and gives this thread an alternate stack (once per thread).
void guard_this_thread();

/// While it lives, the watchdog stops the job's running cores once `deadline_ns` (host time from now) has passed.
class Deadline {
 public:
  Deadline(Job& job, std::uint64_t deadline_ns);
  ~Deadline();
  Deadline(const Deadline&) = delete;
  Deadline& operator=(const Deadline&) = delete;

  /// Workers announce the threads that the watchdog may interrupt.
  void enter();
  void leave();

 public:
  struct Entry;

 private:
  Entry* entry_;
};

}  // namespace jal::emu
