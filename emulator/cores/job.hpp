// One dispatch while it runs: its cores, who may run next, collectives under way, messages, the first fault.
//
// What it is not: a thread or a clock. Workers call work(); the kernel's verbs call the rest. Invariant: a core is in
// exactly one place: claimed by a worker (in its queue, or run by whoever took it from there), runnable, suspended in a
// collective or a receive, or ended. Results and times follow from the kernel alone: which worker runs a core, and
// when, changes nothing. Locks: `lock_` guards run lists, collectives, messages and the fault; it is never held while a
// kernel or an engine runs.
#pragma once
#include <atomic>
#include <cstdint>
#include <deque>
#include <jal/hal/cores.hpp>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "emulator/cores/charges.hpp"
#include "emulator/cores/core_state.hpp"
#include "emulator/cores/spin.hpp"
#include "emulator/device/text_port.hpp"
#include "emulator/hbm/hbm.hpp"

namespace jal::emu {

class CoreCluster;

/// Fibers that no core uses, shared by the workers of a cluster.
class FiberPool {
 public:
  FiberPool(std::size_t stack_bytes, std::size_t l1_bytes) : stack_bytes_(stack_bytes), l1_bytes_(l1_bytes) {}
  Fiber* take();
  void give(Fiber* fiber);
  std::size_t made() const { return all_.size(); }

 private:
  const std::size_t stack_bytes_, l1_bytes_;
  SpinLock lock_;
  std::vector<std::unique_ptr<Fiber>> all_;
  std::vector<Fiber*> free_;
};

class Job {
 public:
  struct Setup {
    const hal::CoreJob* request = nullptr;
    jal_kernel_function function = nullptr;
    const jal_core_verbs* verbs = nullptr;
    std::uint32_t workers = 1;
    std::uint32_t sanitize = 0;
    bool is_traced = false;
    TextPort* text = nullptr;
  };
  Job(const Charges& charges, Hbm& hbm, FiberPool& fibers, SharedPool& buffers, std::vector<CoreState>& cores,
      const Setup& setup);

  /// A worker's share: runs cores until all have ended or the job failed.
  void work(std::uint32_t worker);
  /// After every worker returned: end time with contention, accounts, fault.
  void finish(hal::CoreJobResult& out);

  // --- for verbs, on a core's fiber
  /// Blocks the core until its collective is complete.
  void join_collective(CoreState& core);
  void send(CoreState& from, std::uint32_t to, SharedBuffer* data, std::uint32_t bytes, std::uint64_t ready_ps);
  void receive(CoreState& core);
  /// Records the first fault and never returns. No frame below is unwound: callers hold nothing that owns memory but
  /// `text`.
  [[noreturn]] void fault(CoreState& core, std::int32_t status, std::string&& text, const jal_site* site,
                          std::uint64_t address = 0);
  /// Records a fault without a core's cooperation (a signal). Async-signal-safe: no allocation.
  void record_fault(CoreState& core, std::int32_t status, const char* text, std::uint64_t address) noexcept;
  /// Stops the job from outside (the watchdog). Any thread.
  void stop(std::int32_t status, const char* text);
  /// A kernel's text to its client.
  void print(const CoreState& core, std::string_view text);
  bool is_stopping() const { return is_stopping_.load(std::memory_order_relaxed); }
  /// A core that notices that the job is over leaves here.
  [[noreturn]] void leave(CoreState& core);
  void count_link_bytes(std::uint32_t from_core, std::uint32_t to_core, std::uint64_t bytes);

  const Charges& charges() const { return charges_; }
  Hbm& hbm() { return hbm_; }
  SharedPool& buffers() { return buffers_; }
  std::uint32_t client() const { return request_.client; }
  const hal::CoreJob& request() const { return request_; }
  std::uint32_t core_count() const { return count_; }
  std::uint32_t sanitize() const { return sanitize_; }
  bool is_traced() const { return is_traced_; }
  std::vector<CoreState>& cores() { return cores_; }

 private:
  struct Message {
    std::uint32_t from;
    std::uint32_t bytes;
    SharedBuffer* data;
    std::uint64_t ready_ps;
  };
  /// A collective under way, and the last one's result.
  struct Collective {
    std::uint64_t group = 0;
    // Of the members that have arrived.
    std::uint64_t arrival_ps = 0;
    std::uint64_t sent_bytes = 0;   // the largest contribution
    std::uint64_t given_bytes = 0;  // the sum
    std::uint64_t givers = 0;       // who brings something
    std::uint32_t takers = 0;       // how many have a result
    std::uint32_t staged = 0;       // how many parts lie in `stage` already
    jal_coll_op first;              // of the first to arrive
    bool is_doubtful = false;       // some member's operation differs from the first's
    CollectiveResult result;
    /// An allgather's result, where the workers put their cores' parts before these arrive; nullptr: none.
    SharedBuffer* stage = nullptr;
    std::uint64_t stage_bytes = 0;
  };

  /// Cores that a worker has claimed and not begun. It takes them one by one; a worker without work takes them too. The
  /// lock and what it guards move between CPUs, at 50 to 100 ns a line, so they are touched once in a round of cores.
  struct alignas(64) Queue {
    std::atomic<std::uint64_t> cores{0};
  };

  static void run_kernel(void* core);
  void start(CoreState& core);
  void recycle(CoreState& core, DropList& drops);  // its fiber and tiles, when its kernel is over
  void run(CoreState& core, WorkerState& worker);  // until it suspends or ends
  std::uint64_t run_queue(WorkerState& worker);
  std::uint64_t steal(WorkerState& worker);
  bool is_anything_queued() const;
  void stage(std::uint64_t cores);  // that have suspended: the parts of allgathers
  // With the lock held:
  void claim(std::uint32_t worker);
  void settle(CoreState& core);  // after its fiber came back
  Collective& collective_of(std::uint64_t group);
  SharedBuffer* stage_of(std::uint64_t group, std::uint64_t bytes);
  void arrive(CoreState& core);  // at a collective; the last one completes it and makes the group runnable
  void complete(Collective& collective);
  void set_runnable();
  std::string check_members(const Collective& collective) const;
  void push(const CoreState& core);
  bool deliver(CoreState& core);
  void declare_deadlock();
  std::uint32_t home(std::uint32_t index) const { return index * workers_ / count_; }

  const Charges& charges_;
  Hbm& hbm_;
  FiberPool& fibers_;
  SharedPool& buffers_;
  std::vector<CoreState>& cores_;
  hal::CoreJob request_;
  jal_kernel_function function_;
  std::uint32_t workers_, sanitize_;
  bool is_traced_;
  TextPort* text_;
  std::uint32_t count_ = 0;
  std::atomic<bool> is_stopping_{false};  // read by every verb, so not on a line that workers write

  alignas(64) SpinLock lock_;
  std::uint64_t runnable_ = 0;  // cores that may run, by index
  std::uint32_t running_ = 0;   // cores that workers have claimed
  std::uint32_t ended_ = 0;
  std::vector<std::uint64_t> homes_;        // by worker: the cores it takes first
  std::vector<Queue> queues_;               // by worker
  std::vector<std::deque<Message>> inbox_;  // by receiving index
  std::deque<Collective> collectives_;      // addresses stay
  hal::FaultReport fault_;
  std::vector<std::atomic<std::uint64_t>> link_bytes_;
  // What a worker without work watches.
  alignas(64) std::atomic<bool> is_anything_runnable_{false};
  std::atomic<bool> is_anything_running_{false};
};

/// The core whose kernel runs on this thread, for signal handlers; nullptr outside kernels.
CoreState* running_core();

}  // namespace jal::emu
