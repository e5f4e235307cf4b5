// Signal handlers and watchdog. See guard.hpp.
#include "emulator/cores/guard.hpp"

#include <jal/abi/status.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <time.h>
#include <ucontext.h>

#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <thread>
#include <vector>

#include "emulator/cores/job.hpp"

namespace jal::emu {
namespace {

constexpr int kFaults[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL};
struct sigaction g_previous[4];

int watchdog_signal() { return SIGRTMAX - 3; }

/// Runs on the thread's own emergency stack after a handler returned: the fiber's stack may be what overflowed.
[[noreturn]] void leave_fiber() {
  CoreState* core = running_core();
  core->is_in_verb = true;
  core->fiber->abandon();
}

thread_local std::byte* t_emergency_stack = nullptr;
constexpr std::size_t kEmergencyBytes = 64 * 1024;

/// Makes the interrupted thread continue in leave_fiber().
void redirect(void* context) {
  auto* registers = static_cast<ucontext_t*>(context);
  // The ABI wants rsp + 8 to be a multiple of 16 at a function's entry.
  const auto top = reinterpret_cast<std::uintptr_t>(t_emergency_stack + kEmergencyBytes) / 16 * 16 - 8;
  registers->uc_mcontext.gregs[REG_RSP] = static_cast<greg_t>(top);
  registers->uc_mcontext.gregs[REG_RIP] = reinterpret_cast<greg_t>(&leave_fiber);
}

void on_fault(int signal, siginfo_t* info, void* context) {
  CoreState* core = running_core();
  if (core != nullptr && !core->is_in_verb) {
    const char* what = signal == SIGSEGV  ? "the kernel read or wrote memory that is not its own"
                       : signal == SIGBUS ? "the kernel made an access that the bus refused"
                       : signal == SIGFPE ? "the kernel divided by zero or overflowed an integer division"
                                          : "the kernel executed an illegal instruction";
    const auto address = reinterpret_cast<std::uint64_t>(info->si_addr);
    const auto low = reinterpret_cast<std::uint64_t>(core->fiber->stack_low());
    if (signal == SIGSEGV && address < low && address + 65536 >= low) what = "the kernel overflowed its stack";
    core->job->record_fault(*core, JAL_ERROR_KERNEL_FAULT, what, signal == SIGFPE || signal == SIGILL ? 0 : address);
    redirect(context);
    return;
  }
  for (std::size_t i = 0; i < 4; ++i) {
    if (kFaults[i] != signal) continue;
    const struct sigaction& previous = g_previous[i];
    if ((previous.sa_flags & SA_SIGINFO) != 0) {
      previous.sa_sigaction(signal, info, context);
    } else if (previous.sa_handler != SIG_DFL && previous.sa_handler != SIG_IGN) {
      previous.sa_handler(signal);
    } else {
      // Back to the default: the instruction faults again and the process ends as it would have without us.
      ::signal(signal, SIG_DFL);
    }
  }
}

void on_watchdog(int, siginfo_t*, void* context) {
  CoreState* core = running_core();
  // In a verb the job's stop flag is seen at the next one.
  if (core == nullptr || core->is_in_verb || !core->job->is_stopping()) return;
  core->suspension = Suspension::dead;
  redirect(context);
}

}  // namespace

void guard_this_thread() {
  static std::once_flag once;
  std::call_once(once, [] {
    struct sigaction action = {};
    sigemptyset(&action.sa_mask);
    action.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER;
    action.sa_sigaction = on_fault;
    for (std::size_t i = 0; i < 4; ++i) sigaction(kFaults[i], &action, &g_previous[i]);
    action.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_RESTART;
    action.sa_sigaction = on_watchdog;
    sigaction(watchdog_signal(), &action, nullptr);
  });
  // Freed at the thread's end.
  struct Stacks {
    std::byte* emergency = nullptr;
    void* alternate = nullptr;
    ~Stacks() {
      if (alternate != nullptr) {
        stack_t off = {};
        off.ss_flags = SS_DISABLE;
        sigaltstack(&off, nullptr);
        std::free(alternate);
      }
      std::free(emergency);
      t_emergency_stack = nullptr;
    }
  };
  static thread_local Stacks stacks;
  if (stacks.emergency != nullptr) return;
  stacks.emergency = static_cast<std::byte*>(std::malloc(kEmergencyBytes));
  t_emergency_stack = stacks.emergency;
  stack_t old = {};
  sigaltstack(nullptr, &old);
  if ((old.ss_flags & SS_DISABLE) == 0) return;  // the program has its own
  stack_t mine = {};
  mine.ss_size = 64 * 1024;
  mine.ss_sp = stacks.alternate = std::malloc(mine.ss_size);
  sigaltstack(&mine, nullptr);
}

struct Deadline::Entry {
  Job* job;
  std::chrono::steady_clock::time_point end;
  std::uint64_t deadline_ns;
  std::vector<pthread_t> threads;
};

namespace {

/// One for the process; jobs of several chips may be watched at a time.
class Watchdog {
 public:
  static Watchdog& get() {
    static auto* watchdog = new Watchdog;  // never destroyed: its thread may outlive static destruction
    return *watchdog;
  }
  std::mutex mutex;
  std::condition_variable wake;
  std::vector<Deadline::Entry*>* entries = new std::vector<Deadline::Entry*>;
  bool is_started = false;
  bool is_asleep = false;
};

}  // namespace

static void stop_job(Deadline::Entry& entry);

static void watch() {
  Watchdog& dog = Watchdog::get();
  std::unique_lock lock(dog.mutex);
  for (;;) {
    if (dog.entries->empty()) {
      // A short nap first, so that a stream of small dispatches costs no system call each; then sleep until one comes.
      dog.wake.wait_for(lock, std::chrono::milliseconds(100));
      if (dog.entries->empty()) {
        dog.is_asleep = true;
        dog.wake.wait(lock, [&] { return !dog.entries->empty(); });
        dog.is_asleep = false;
      }
      continue;
    }
    auto nearest = std::chrono::steady_clock::time_point::max();
    const auto now = std::chrono::steady_clock::now();
    for (Deadline::Entry* entry : *dog.entries) {
      if (entry->end <= now) {
        stop_job(*entry);
        entry->end = now + std::chrono::milliseconds(10);  // a worker in a verb is asked again
      }
      nearest = std::min(nearest, entry->end);
    }
    dog.wake.wait_until(lock, std::min(nearest, now + std::chrono::milliseconds(100)));
  }
}

static void stop_job(Deadline::Entry& entry) {
  char text[128];
  std::snprintf(text, sizeof text, "the kernel ran longer than its deadline of %.3f s of host time",
                static_cast<double>(entry.deadline_ns) * 1e-9);
  entry.job->stop(JAL_ERROR_KERNEL_DEADLINE, text);
  for (const pthread_t thread : entry.threads) pthread_kill(thread, watchdog_signal());
}

Deadline::Deadline(Job& job, std::uint64_t deadline_ns)
    : entry_(
          new Entry{&job, std::chrono::steady_clock::now() + std::chrono::nanoseconds(deadline_ns), deadline_ns, {}}) {
  Watchdog& dog = Watchdog::get();
  bool must_wake = false;
  {
    const std::lock_guard lock(dog.mutex);
    dog.entries->push_back(entry_);
    must_wake = dog.is_asleep;
    if (!dog.is_started) {
      dog.is_started = true;
      sigset_t all, old;
      sigfillset(&all);
      pthread_sigmask(SIG_SETMASK, &all, &old);
      std::thread(watch).detach();
      pthread_sigmask(SIG_SETMASK, &old, nullptr);
    }
  }
  if (must_wake) dog.wake.notify_one();
}

Deadline::~Deadline() {
  Watchdog& dog = Watchdog::get();
  const std::lock_guard lock(dog.mutex);
  std::erase(*dog.entries, entry_);
  delete entry_;
}

void Deadline::enter() {
  const std::lock_guard lock(Watchdog::get().mutex);
  entry_->threads.push_back(pthread_self());
}

void Deadline::leave() {
  const std::lock_guard lock(Watchdog::get().mutex);
  std::erase_if(entry_->threads, [](pthread_t thread) { return pthread_equal(thread, pthread_self()) != 0; });
}

}  // namespace jal::emu
