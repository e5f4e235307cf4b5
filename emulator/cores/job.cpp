// Scheduling of a dispatch's cores. See job.hpp.
#include "emulator/cores/job.hpp"

#include <jal/abi/instance.h>
#include <jal/abi/status.h>
#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <mutex>
#include <utility>

#include "emulator/cores/tiles.hpp"

namespace jal::emu {

RunningCore& running_core() {
  // A fiber may move to another thread between two calls, so the address is never kept across a switch.
  static thread_local RunningCore running;
  return running;
}

Fiber* FiberPool::take() {
  const std::lock_guard guard(lock_);
  if (free_.empty()) {
    all_.push_back(std::make_unique<Fiber>(stack_bytes_, l1_bytes_));
    return all_.back().get();
  }
  Fiber* fiber = free_.back();
  free_.pop_back();
  return fiber;
}

void FiberPool::give(Fiber* fiber) {
  const std::lock_guard guard(lock_);
  free_.push_back(fiber);
}

Job::Job(const Charges& charges, Hbm& hbm, FiberPool& fibers, SharedPool& buffers, std::vector<CoreState>& cores,
         const Setup& setup)
    : charges_(charges),
      hbm_(hbm),
      fibers_(fibers),
      buffers_(buffers),
      cores_(cores),
      request_(*setup.request),
      function_(setup.function),
      workers_(setup.workers),
      sanitize_(setup.sanitize),
      is_traced_(setup.is_traced),
      text_(setup.text),
      verb_fj_(charges.verb_fj()),
      count_(static_cast<std::uint32_t>(std::popcount(setup.request->core_mask))),
      run_lists_(setup.workers),
      inbox_(count_),
      link_bytes_(charges.model().cores * 4) {
  const Model& model = charges.model();
  if (cores_.size() < count_) cores_.resize(count_);
  std::uint32_t index = 0;
  for (std::uint64_t rest = request_.core_mask; rest != 0; rest &= rest - 1, ++index) {
    CoreState& core = cores_[index];
    std::vector<TileSlot> slots = std::move(core.slots);
    core = CoreState{};
    core.slots = std::move(slots);
    core.verbs = setup.verbs;
    core.arguments = request_.arguments;
    core.argument_bytes = request_.argument_bytes;
    core.core_id = static_cast<std::uint32_t>(std::countr_zero(rest));
    core.index = index;
    core.count = count_;
    core.grid_rows = model.grid_rows;
    core.grid_cols = model.grid_cols;
    core.l1_bytes = model.l1_bytes;
    core.chip_cores = model.cores;
    core.core_mask = request_.core_mask;
    core.job = this;
    core.now_ps = request_.start_ps;
    core.end_ps = request_.start_ps;
    std::fill(std::begin(core.free_ps), std::end(core.free_ps), request_.start_ps);
    run_lists_[home(index)].push_back(index);
  }
  runnable_ = count_;
  runnable_hint_.store(count_, std::memory_order_relaxed);
}

void Job::run_kernel(void* argument) {
  auto& core = *static_cast<CoreState*>(argument);
  core.job->function_(&core);
  running_core().is_in_verb = true;
  core.site = nullptr;  // the last verb's site went with its frame
  if ((core.job->sanitize_ & JAL_SANITIZE_MEMORY) != 0) {
    for (std::uint32_t i = 0; i < core.top; ++i) check_guard(core, core.slots[i], i + 1);
  }
  core.suspension = Suspension::ended;
}

CoreState* Job::next(std::uint32_t worker) {
  const std::lock_guard guard(lock_);
  if (is_stopping()) return nullptr;
  for (std::uint32_t n = 0; n < workers_; ++n) {
    std::deque<std::uint32_t>& list = run_lists_[(worker + n) % workers_];
    if (list.empty()) continue;
    // The own list from the front, another's from the back: a thief takes what its owner would reach last.
    const std::uint32_t index = n == 0 ? list.front() : list.back();
    if (n == 0) {
      list.pop_front();
    } else {
      list.pop_back();
    }
    --runnable_;
    runnable_hint_.store(runnable_, std::memory_order_relaxed);
    ++running_;
    return &cores_[index];
  }
  return nullptr;
}

void Job::push(CoreState& core) {
  run_lists_[home(core.index)].push_back(core.index);
  ++runnable_;
  runnable_hint_.store(runnable_, std::memory_order_relaxed);
}

void Job::work(std::uint32_t worker) {
  Backoff backoff;
  RunningCore& running = running_core();
  for (;;) {
    CoreState* core = next(worker);
    if (core == nullptr) {
      {
        const std::lock_guard guard(lock_);
        if (running_ == 0 && (is_stopping() || ended_ == count_)) return;
        if (running_ == 0 && runnable_ == 0) {
          declare_deadlock();
          return;
        }
      }
      // Look without the lock until something changes.
      do {
        backoff.pause();
      } while (runnable_hint_.load(std::memory_order_relaxed) == 0 && !is_stopping() && [&] {
        const std::lock_guard guard(lock_);
        return running_ != 0;
      }());
      continue;
    }
    backoff.reset();
    if (core->fiber == nullptr) {
      core->fiber = fibers_.take();
      if (core->fiber->l1_client != request_.client) {
        // The L1 may hold another client's data. Only pages that were touched cost anything here.
        if (core->fiber->l1_client != UINT32_MAX) core->fiber->scrub_l1();
        core->fiber->l1_client = request_.client;
      }
      core->fiber->prepare(&Job::run_kernel, core);
    }
    running.core = core;
    running.is_in_verb = core->suspension != Suspension::none;
    core->fiber->resume();
    running.core = nullptr;
    settle(*core);
  }
}

/// The fiber is saved, so from here on another worker may resume the core.
void Job::settle(CoreState& core) {
  const Suspension why = core.suspension;
  if (why == Suspension::ended || why == Suspension::dead) {
    for (std::uint32_t i = 0; i < core.top; ++i) {
      if (core.slots[i].shared != nullptr) buffers_.drop(core.slots[i].shared);
      core.slots[i].shared = nullptr;
    }
    core.top = 0;
    fibers_.give(core.fiber);
    core.fiber = nullptr;
  }
  const std::lock_guard guard(lock_);
  --running_;
  switch (why) {
    case Suspension::collective:
      if (arrive(core)) push(core);
      break;
    case Suspension::receive:
      if (deliver(core)) {
        push(core);
      } else {
        core.is_receiving = true;
      }
      break;
    default:
      core.is_ended = true;
      ++ended_;
      break;
  }
}

void Job::leave(CoreState& core) {
  core.suspension = Suspension::dead;
  core.fiber->abandon();
}

void Job::fault(CoreState& core, std::int32_t status, std::string&& text, const jal_site* site,
                std::uint64_t address) {
  {
    const std::string message = std::move(text);  // freed here: no frame of the fiber is ever unwound
    const std::lock_guard guard(lock_);
    if (fault_.status == JAL_OK) {
      fault_.status = status;
      fault_.core = core.core_id;
      fault_.address = address;
      std::snprintf(fault_.text, sizeof fault_.text, "%s", message.c_str());
      if (site != nullptr) {
        fault_.line = site->line;
        std::snprintf(fault_.file, sizeof fault_.file, "%s", site->file);
      }
    }
    is_stopping_.store(true, std::memory_order_relaxed);
  }
  leave(core);
}

void Job::record_fault(CoreState& core, std::int32_t status, const char* text, std::uint64_t address) noexcept {
  // The kernel's code was interrupted, not a verb, so this thread does not hold the lock.
  const std::lock_guard guard(lock_);
  if (fault_.status == JAL_OK) {
    fault_.status = status;
    fault_.core = core.core_id;
    fault_.address = address;
    std::size_t n = 0;
    while (text[n] != '\0' && n + 1 < sizeof fault_.text) {
      fault_.text[n] = text[n];
      ++n;
    }
    fault_.text[n] = '\0';
  }
  core.suspension = Suspension::dead;
  is_stopping_.store(true, std::memory_order_relaxed);
}

void Job::stop(std::int32_t status, const char* text) {
  const std::lock_guard guard(lock_);
  if (fault_.status == JAL_OK) {
    fault_.status = status;
    std::snprintf(fault_.text, sizeof fault_.text, "%s", text);
  }
  is_stopping_.store(true, std::memory_order_relaxed);
}

void Job::print(const CoreState& core, std::string_view text) {
  if (text_ != nullptr) text_->write(request_.client, core.core_id, text);
}

void Job::declare_deadlock() {
  // Called with the lock held.
  std::string text = "every remaining core waits:";
  std::uint32_t named = 0;
  const CoreState* first = nullptr;
  for (std::uint32_t i = 0; i < count_; ++i) {
    const CoreState& core = cores_[i];
    if (core.is_ended) continue;
    if (first == nullptr) first = &core;
    if (++named > 3) continue;
    if (core.suspension == Suspension::receive) {
      text += fmt::format(" core {} for a message from core {};", core.core_id, cores_[core.recv_from].core_id);
    } else {
      std::uint64_t missing = core.coll->group;
      for (const Collective& c : collectives_) {
        if (c.group == core.coll->group) missing &= ~c.arrived;
      }
      text +=
          fmt::format(" core {} in a collective (kind {}) for ranks {:#x};", core.core_id, core.coll->kind, missing);
    }
  }
  text += fmt::format(" {} in all", named);
  if (fault_.status == JAL_OK) {
    fault_.status = JAL_ERROR_KERNEL_DEADLOCK;
    fault_.core = first->core_id;
    std::snprintf(fault_.text, sizeof fault_.text, "%s", text.c_str());
    if (first->site != nullptr) {
      fault_.line = first->site->line;
      std::snprintf(fault_.file, sizeof fault_.file, "%s", first->site->file);
    }
  }
  is_stopping_.store(true, std::memory_order_relaxed);
}

void Job::send(CoreState& from, std::uint32_t to, SharedBuffer* data, std::uint32_t bytes, std::uint64_t ready_ps) {
  const std::lock_guard guard(lock_);
  inbox_[to].push_back({from.index, bytes, data, ready_ps});
  CoreState& receiver = cores_[to];
  if (!receiver.is_receiving || !deliver(receiver)) return;
  receiver.is_receiving = false;
  push(receiver);
}

/// Hands the oldest message from the awaited core over. Called with the lock held.
bool Job::deliver(CoreState& core) {
  std::deque<Message>& inbox = inbox_[core.index];
  for (auto it = inbox.begin(); it != inbox.end(); ++it) {
    if (it->from != core.recv_from) continue;
    core.delivered = it->data;
    core.recv_bytes = it->bytes;
    core.ready_ps = it->ready_ps;
    inbox.erase(it);
    return true;
  }
  return false;
}

void Job::receive(CoreState& core) {
  {
    const std::lock_guard guard(lock_);
    if (deliver(core)) return;
  }
  core.suspension = Suspension::receive;
  core.fiber->suspend();
  core.suspension = Suspension::none;
  if (is_stopping()) leave(core);
}

void Job::join_collective(CoreState& core) {
  {
    const std::lock_guard guard(lock_);
    // The last one need not sleep.
    for (Collective& c : collectives_) {
      if (c.group != core.coll->group || (c.arrived | 1ull << core.index) != c.group) continue;
      if (arrive(core)) return;
    }
  }
  if (is_stopping()) leave(core);
  core.suspension = Suspension::collective;
  core.fiber->suspend();
  core.suspension = Suspension::none;
  if (is_stopping()) leave(core);
}

/// Counts the core in. True: it was the last; everything is delivered and the others are runnable. Called with the lock
/// held.
bool Job::arrive(CoreState& core) {
  const std::uint64_t group = core.coll->group;
  Collective* collective = nullptr;
  for (Collective& c : collectives_) {
    if (c.group == group) collective = &c;
  }
  if (collective == nullptr) {
    collectives_.push_back({group, 0, 0});
    collective = &collectives_.back();
  }
  collective->arrived |= 1ull << core.index;
  if (collective->arrived != group) return false;
  const std::string mismatch = check_members(*collective);
  if (!mismatch.empty()) {
    if (fault_.status == JAL_OK) {
      fault_.status = JAL_ERROR_KERNEL_FAULT;
      fault_.core = core.core_id;
      std::snprintf(fault_.text, sizeof fault_.text, "%s", mismatch.c_str());
      if (core.site != nullptr) {
        fault_.line = core.site->line;
        std::snprintf(fault_.file, sizeof fault_.file, "%s", core.site->file);
      }
    }
    is_stopping_.store(true, std::memory_order_relaxed);
    return false;
  }
  complete(*collective);
  collective->arrived = 0;
  for (std::uint64_t rest = group; rest != 0; rest &= rest - 1) {
    CoreState& member = cores_[static_cast<std::uint32_t>(std::countr_zero(rest))];
    if (&member != &core) push(member);
  }
  return true;
}

void Job::count_link_bytes(std::uint32_t from_core, std::uint32_t to_core, std::uint64_t bytes) {
  // Row first, then column; link 4 * core + direction leaves that core.
  const std::uint32_t cols = charges_.model().grid_cols;
  std::uint32_t at = from_core;
  while (at != to_core) {
    std::uint32_t direction = 0;
    std::uint32_t to = at;
    if (at % cols != to_core % cols) {
      direction = at % cols < to_core % cols ? 0 : 1;
      to = direction == 0 ? at + 1 : at - 1;
    } else {
      direction = at < to_core ? 2 : 3;
      to = direction == 2 ? at + cols : at - cols;
    }
    link_bytes_[at * 4 + direction].fetch_add(bytes, std::memory_order_relaxed);
    at = to;
  }
}

void Job::finish(hal::CoreJobResult& out) {
  // Workers have returned. Cores that were suspended when the job failed still have their fiber.
  for (std::uint32_t i = 0; i < count_; ++i) {
    CoreState& core = cores_[i];
    if (core.fiber == nullptr) continue;
    for (std::uint32_t t = 0; t < core.top; ++t) {
      if (core.slots[t].shared != nullptr) buffers_.drop(core.slots[t].shared);
      core.slots[t].shared = nullptr;
    }
    if (core.delivered != nullptr) buffers_.drop(core.delivered);
    core.delivered = nullptr;
    core.top = 0;
    fibers_.give(core.fiber);
    core.fiber = nullptr;
  }
  for (std::deque<Message>& inbox : inbox_) {
    for (const Message& message : inbox) buffers_.drop(message.data);
    inbox.clear();
  }
  out.status = fault_.status;
  out.fault = fault_;
  out.end_ps = request_.start_ps;
  for (std::uint32_t i = 0; i < count_; ++i) {
    const CoreState& core = cores_[i];
    out.end_ps = std::max({out.end_ps, core.now_ps, core.end_ps});
    out.bytes_local += core.bytes_local;
    out.bytes_remote += core.bytes_remote;
    out.bytes_collective += core.bytes_collective;
    out.bytes_noc += core.bytes_noc;
    for (std::uint32_t unit = 0; unit < JAL_UNIT_COUNT; ++unit) {
      out.busy_ps[unit] += core.busy_ps[unit];
      out.energy_fj[unit] += core.energy_fj[unit];
    }
  }
  // Contention, free of order: no link can have carried its bytes faster than it runs.
  std::uint64_t most = 0;
  for (const std::atomic<std::uint64_t>& bytes : link_bytes_)
    most = std::max(most, bytes.load(std::memory_order_relaxed));
  out.end_ps = std::max(out.end_ps, request_.start_ps + charges_.noc_ps(most));
}

}  // namespace jal::emu
