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

namespace {

/// Initial-exec: a plain load, where the default would be a call. Written by the worker's own loop only.
__attribute__((tls_model("initial-exec"))) thread_local CoreState* t_running = nullptr;

/// Brings what a core's next turn reads first into this CPU's cache, while another core computes.
void prefetch_state(const CoreState& core) {
  const auto* at = reinterpret_cast<const std::byte*>(&core);
  for (std::size_t line = 0; line < sizeof(CoreState); line += 64) __builtin_prefetch(at + line, 1);
}

/// The same for what the state points to; the state should be there already.
void prefetch_reach(const CoreState& core) {
  if (core.stack_top != nullptr) {
    for (std::size_t line = 0; line < 1536; line += 64) __builtin_prefetch(core.stack_top + line, 1);
    __builtin_prefetch(core.fiber, 1);
  }
  const std::uint32_t first = core.top > 16 ? core.top - 16 : 0;
  for (std::uint32_t slot = first; slot < core.top; slot += 2) __builtin_prefetch(core.slots.data() + slot, 1);
}

}  // namespace

CoreState* running_core() { return t_running; }

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
      count_(static_cast<std::uint32_t>(std::popcount(setup.request->core_mask))),
      homes_(setup.workers),
      queues_(setup.workers),
      inbox_(count_),
      link_bytes_(charges.model().cores * 4) {
  const Model& model = charges.model();
  if (cores_.size() < count_) cores_.resize(count_);
  std::uint32_t index = 0;
  for (std::uint64_t rest = request_.core_mask; rest != 0; rest &= rest - 1, ++index) {
    CoreState& core = cores_[index];
    std::vector<TileSlot> slots = std::move(core.slots);
    std::vector<TileCheck> checks = std::move(core.checks);
    core = CoreState{};
    core.slots = std::move(slots);
    core.checks = std::move(checks);
    core.verb_issue_ps = model.verb_issue_ps;
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
    core.start_ps = request_.start_ps;
    core.end_ps = request_.start_ps;
    std::fill(std::begin(core.free_ps), std::end(core.free_ps), request_.start_ps);
    runnable_ |= 1ull << index;
    homes_[home(index)] |= 1ull << index;
  }
  set_runnable();
}

void Job::run_kernel(void* argument) {
  auto& core = *static_cast<CoreState*>(argument);
  core.job->function_(&core);
  core.is_in_verb = true;
  core.site = nullptr;  // the last verb's site went with its frame
  if ((core.job->sanitize_ & JAL_SANITIZE_MEMORY) != 0) {
    for (std::uint32_t i = 0; i < core.top; ++i) check_guard(core, core.slots[i], i + 1);
  }
  core.suspension = Suspension::ended;
}

void Job::set_runnable() { is_anything_runnable_.store(runnable_ != 0, std::memory_order_relaxed); }

void Job::push(const CoreState& core) {
  runnable_ |= 1ull << core.index;
  set_runnable();
}

/// Fills the worker's queue with the cores that it runs next: all that are its own, else one of another's.
void Job::claim(std::uint32_t worker) {
  if (is_stopping() || runnable_ == 0) return;
  std::uint64_t claimed = runnable_ & homes_[worker];
  if (claimed == 0) claimed = std::bit_floor(runnable_);
  runnable_ &= ~claimed;
  if (runnable_ == 0) set_runnable();
  if (running_ == 0) is_anything_running_.store(true, std::memory_order_relaxed);
  running_ += static_cast<std::uint32_t>(std::popcount(claimed));
  queues_[worker].cores.store(claimed, std::memory_order_release);
}

void Job::work(std::uint32_t index) {
  Backoff backoff;
  WorkerState worker;
  worker.index = index;
  std::uint64_t ran = 0;  // to be settled
  for (;;) {
    stage(ran);
    {
      const std::lock_guard guard(lock_);
      // Their fibers are saved, so from here on another worker may resume them.
      for (; ran != 0; ran &= ran - 1) settle(cores_[static_cast<std::uint32_t>(std::countr_zero(ran))]);
      claim(index);
      if (running_ == 0) {
        if (!is_stopping() && ended_ != count_) declare_deadlock();
        break;
      }
    }
    ran = run_queue(worker);
    if (ran == 0) ran = steal(worker);
    if (ran != 0) {
      backoff.reset();
      continue;
    }
    // Look without the lock until something changes.
    do {
      backoff.pause();
    } while (!is_anything_runnable_.load(std::memory_order_relaxed) && !is_anything_queued() &&
             is_anything_running_.load(std::memory_order_relaxed) && !is_stopping());
  }
  worker.drops.flush(buffers_);
}

bool Job::is_anything_queued() const {
  return std::any_of(queues_.begin(), queues_.end(),
                     [](const Queue& queue) { return queue.cores.load(std::memory_order_relaxed) != 0; });
}

/// Runs what is in the worker's own queue, lowest first; returns what it ran. Neighbours' weights lie side by side in
/// host memory, so this order is what the CPU's prefetcher expects.
std::uint64_t Job::run_queue(WorkerState& worker) {
  std::atomic<std::uint64_t>& queue = queues_[worker.index].cores;
  const auto take = [&] {
    std::uint64_t rest = queue.load(std::memory_order_relaxed);
    while (rest != 0 && !queue.compare_exchange_weak(rest, rest & (rest - 1), std::memory_order_acquire)) {
    }
    return rest & -rest;
  };
  std::uint64_t ran = 0;
  for (std::uint64_t core = take(); core != 0;) {
    // The next one is taken now, so that nobody touches it while it is prefetched; the last one stays for a thief.
    const std::uint64_t rest = queue.load(std::memory_order_relaxed);
    std::uint64_t next = (rest & (rest - 1)) != 0 ? take() : 0;
    worker.ahead = next == 0 ? nullptr : &cores_[static_cast<std::uint32_t>(std::countr_zero(next))];
    if (worker.ahead != nullptr) {
      prefetch_reach(*worker.ahead);
      const std::uint64_t after = queue.load(std::memory_order_relaxed);
      if (after != 0) prefetch_state(cores_[static_cast<std::uint32_t>(std::countr_zero(after))]);
    }
    run(cores_[static_cast<std::uint32_t>(std::countr_zero(core))], worker);
    ran |= core;
    core = next != 0 ? next : take();
  }
  return ran;
}

/// Runs one core of another worker's queue, the one that its owner would reach last; returns it, or 0.
std::uint64_t Job::steal(WorkerState& worker) {
  for (Queue& queue : queues_) {
    std::uint64_t rest = queue.cores.load(std::memory_order_relaxed);
    while (rest != 0) {
      const std::uint64_t core = std::bit_floor(rest);
      if (!queue.cores.compare_exchange_weak(rest, rest & ~core, std::memory_order_acquire)) continue;
      worker.ahead = nullptr;
      run(cores_[static_cast<std::uint32_t>(std::countr_zero(core))], worker);
      return core;
    }
  }
  return 0;
}

void Job::run(CoreState& core, WorkerState& worker) {
  core.worker = &worker;
  if (core.fiber == nullptr) start(core);
  t_running = &core;
  core.fiber->resume();
  t_running = nullptr;
  core.stack_top = core.fiber->stack_top();
  if (core.suspension == Suspension::ended || core.suspension == Suspension::dead) recycle(core, worker.drops);
}

void Job::start(CoreState& core) {
  core.fiber = fibers_.take();
  if (core.fiber->l1_client != request_.client) {
    // The L1 may hold another client's data. Only pages that were touched cost anything here.
    if (core.fiber->l1_client != UINT32_MAX) core.fiber->scrub_l1();
    core.fiber->l1_client = request_.client;
  }
  core.l1 = core.fiber->l1();
  core.fiber->prepare(&Job::run_kernel, &core);
}

void Job::recycle(CoreState& core, DropList& drops) {
  for (std::uint32_t i = 0; i < core.top; ++i) {
    if (core.slots[i].shared != nullptr) drops.drop(buffers_, core.slots[i].shared);
    core.slots[i].shared = nullptr;
  }
  core.top = 0;
  fibers_.give(core.fiber);
  core.fiber = nullptr;
  core.stack_top = nullptr;
}

void Job::settle(CoreState& core) {
  --running_;
  if (running_ == 0) is_anything_running_.store(false, std::memory_order_relaxed);
  switch (core.suspension) {
    case Suspension::collective:
      arrive(core);
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

void Job::fault(CoreState& core, std::int32_t status, std::string&& text, const jal_site* site, std::uint64_t address) {
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
        if (c.group == core.coll->group) missing &= ~c.result.arrived;
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
  core.suspension = Suspension::collective;
  core.fiber->suspend();
  core.suspension = Suspension::none;
  if (is_stopping()) leave(core);
}

Job::Collective& Job::collective_of(std::uint64_t group) {
  for (Collective& c : collectives_) {
    if (c.group == group) return c;
  }
  Collective& made = collectives_.emplace_back();
  made.group = group;
  return made;
}

void Job::arrive(CoreState& core) {
  const jal_coll_op& op = *core.coll;
  Collective* collective = &collective_of(op.group);
  if (collective->result.arrived == 0) {
    collective->first = op;
    collective->arrival_ps = collective->sent_bytes = collective->given_bytes = collective->givers = 0;
    collective->takers = collective->staged = 0;
    collective->is_doubtful = false;
  }
  const jal_coll_op& first = collective->first;
  collective->is_doubtful = collective->is_doubtful || op.kind != first.kind || op.op != first.op ||
                            op.root != first.root || op.outer != first.outer || op.slots != first.slots ||
                            op.leaf_stride != first.leaf_stride || op.leaf_count != first.leaf_count ||
                            op.rows != first.rows || op.head_dim != first.head_dim ||
                            jal_tile_bytes(op.dst) != jal_tile_bytes(first.dst) ||
                            (op.kind == JAL_COLL_ALLREDUCE && jal_tile_bytes(op.src) != jal_tile_bytes(first.src)) ||
                            op.kind == JAL_COLL_REDUCE || op.kind == JAL_COLL_BROADCAST;
  collective->result.arrived |= 1ull << core.index;
  collective->arrival_ps = std::max(collective->arrival_ps, core.arrival_ps);
  collective->sent_bytes = std::max<std::uint64_t>(collective->sent_bytes, jal_tile_bytes(op.src));
  collective->given_bytes += jal_tile_bytes(op.src);
  if (op.kind != JAL_COLL_MERGE || op.items != 0) collective->givers |= 1ull << core.index;
  if (core.takes_result) ++collective->takers;
  if (core.stage != nullptr && core.stage == collective->stage) ++collective->staged;
  core.stage = nullptr;
  core.collective = &collective->result;
  if (collective->result.arrived != collective->group) return;
  // Equal operations of every member are the rule; only where they may differ are all looked at again.
  const bool is_checked = !collective->is_doubtful &&
                          (op.kind != JAL_COLL_ALLGATHER || collective->given_bytes == jal_tile_bytes(op.dst)) &&
                          (op.kind != JAL_COLL_ALLREDUCE || jal_tile_bytes(op.src) == jal_tile_bytes(op.dst));
  const std::string mismatch = is_checked ? std::string() : check_members(*collective);
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
    return;
  }
  complete(*collective);
  collective->result.arrived = 0;
  runnable_ |= collective->group;
  set_runnable();
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
  DropList drops;
  for (std::uint32_t i = 0; i < count_; ++i) {
    CoreState& core = cores_[i];
    // A collective was complete, and the core never came to take its result.
    const CollectiveResult* result = core.collective;
    if (result != nullptr && core.takes_result && result->data != nullptr && (result->arrived >> i & 1) == 0)
      buffers_.drop(result->data);
    core.collective = nullptr;
    if (core.fiber == nullptr) continue;
    recycle(core, drops);
    if (core.delivered != nullptr) buffers_.drop(core.delivered);
    core.delivered = nullptr;
  }
  drops.flush(buffers_);
  for (Collective& collective : collectives_) {
    if (collective.stage != nullptr)
      buffers_.drop(collective.stage, static_cast<std::uint32_t>(std::popcount(collective.group)));
    collective.stage = nullptr;
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
    out.energy_fj[JAL_UNIT_SCALAR] += core.verbs_issued * charges_.verb_fj();
  }
  // Contention, free of order: no link can have carried its bytes faster than it runs.
  std::uint64_t most = 0;
  for (const std::atomic<std::uint64_t>& bytes : link_bytes_)
    most = std::max(most, bytes.load(std::memory_order_relaxed));
  out.end_ps = std::max(out.end_ps, request_.start_ps + charges_.noc_ps(most));
}

}  // namespace jal::emu
