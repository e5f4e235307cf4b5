// Collectives inside a chip: the verb, and what the last member does for all.
//
// Bits: reductions and softmax merges follow the bracket over the members' order or the leaves' places
// (docs/engine_numerics.md), so they do not depend on who computes or on how the leaves are spread. Time: completion =
// latest arrival + latency + bytes / rate, the same for all members; the network carries what each member receives.
#include <jal/abi/status.h>
#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>
#include <vector>

#include "emulator/cores/verb_scope.hpp"
#include "emulator/cores/verbs.hpp"
#include "emulator/engines/engines.hpp"

namespace jal::emu {
namespace {

struct Best {
  float value;
  std::uint32_t index;
};

std::uint64_t merge_result_bytes(const jal_coll_op& op) { return 4ull * op.slots * op.rows * op.head_dim; }
std::uint64_t merge_item_bytes(const jal_coll_op& op) { return 4ull * op.rows * (op.head_dim + 2); }

/// A suspended member's tile; its verb has checked it.
const std::byte* bytes_of(const CoreState& core, jal_tile tile) {
  return core.slots[jal_tile_id(tile) - 1].data + jal_tile_offset(tile);
}

/// What a member's own operation needs, whatever the others do. Empty: legal.
std::string check_own(const CoreState& core, const jal_coll_op& op) {
  const std::uint64_t everybody = core.count >= 64 ? ~0ull : (1ull << core.count) - 1;
  if ((op.group >> core.index & 1) == 0 || (op.group & ~everybody) != 0) {
    return fmt::format("collective: group {:#x} must hold the caller (rank {}) and only ranks below {}", op.group,
                       core.index, core.count);
  }
  switch (op.kind) {
    case JAL_COLL_BARRIER:
      return {};
    case JAL_COLL_BROADCAST:
      if (op.root >= 64 || (op.group >> op.root & 1) == 0)
        return fmt::format("broadcast: root {} is not in the group {:#x}", op.root, op.group);
      return {};
    case JAL_COLL_ALLGATHER:
      if (op.outer == 0 || jal_tile_bytes(op.src) % op.outer != 0)
        return fmt::format("allgather: {} bytes in {} rows", jal_tile_bytes(op.src), op.outer);
      return {};
    case JAL_COLL_ALLREDUCE:
    case JAL_COLL_REDUCE:
      if (op.op < JAL_REDUCE_SUM || op.op > JAL_REDUCE_ARGMAX ||
          jal_tile_bytes(op.src) % (op.op == JAL_REDUCE_ARGMAX ? 8 : 4) != 0) {
        return fmt::format("reduce: operation {} over {} bytes", op.op, jal_tile_bytes(op.src));
      }
      if (op.kind == JAL_COLL_REDUCE && (op.root >= 64 || (op.group >> op.root & 1) == 0))
        return fmt::format("reduce: root {} is not in the group {:#x}", op.root, op.group);
      return {};
    case JAL_COLL_MERGE:
      if (op.slots == 0 || op.rows == 0 || op.head_dim == 0 || op.leaf_count == 0 || op.leaf_stride < op.leaf_count ||
          (op.items > 0 && op.leaf == nullptr) || jal_tile_bytes(op.src) < op.items * merge_item_bytes(op) ||
          jal_tile_bytes(op.dst) != merge_result_bytes(op)) {
        return fmt::format(
            "merge: {} items in {} bytes, {} slots of {} leaves (stride {}), {} rows of {}, result {} bytes", op.items,
            jal_tile_bytes(op.src), op.slots, op.leaf_count, op.leaf_stride, op.rows, op.head_dim,
            jal_tile_bytes(op.dst));
      }
      for (std::uint32_t i = 0; i < op.items; ++i) {
        if (op.leaf[i] / op.leaf_stride >= op.slots || op.leaf[i] % op.leaf_stride >= op.leaf_count)
          return fmt::format("merge: leaf {} is outside {} slots of {} leaves", op.leaf[i], op.slots, op.leaf_count);
      }
      return {};
    default:
      return fmt::format("collective kind {} is not legal", op.kind);
  }
}

bool has_result(const jal_coll_op& op, std::uint32_t index) {
  return op.kind != JAL_COLL_BARRIER && (op.kind != JAL_COLL_REDUCE || op.root == index);
}

/// Every leaf of every slot merged in the bracket, divided by its sum, at dst[slot][row][head_dim]. op: any member's.
void merge(const jal_coll_op& op, const std::vector<CoreState*>& members, float* dst) {
  const std::uint32_t d = op.head_dim;
  const std::uint32_t rows = op.rows;
  static thread_local std::vector<float> copies;
  static thread_local std::vector<SoftmaxParts> parts;
  std::size_t items = 0;
  for (const CoreState* member : members) items += member->coll->items;
  // The merge uses its inputs as scratch, and wants o, m and l apart.
  const std::size_t stride = static_cast<std::size_t>(rows) * (d + 2);
  copies.resize((items + op.slots) * stride);
  parts.assign(static_cast<std::size_t>(op.slots) * op.leaf_count, SoftmaxParts{});
  float* at = copies.data();
  const auto place = [&](SoftmaxParts& part) {
    part.o = at;
    part.m = at + static_cast<std::size_t>(rows) * d;
    part.l = part.m + rows;
    part.o_stride = d;
    at += stride;
  };
  for (const CoreState* member : members) {
    const jal_coll_op& own = *member->coll;
    if (own.items == 0) continue;
    const auto* source = reinterpret_cast<const float*>(bytes_of(*member, own.src));
    for (std::uint32_t i = 0; i < own.items; ++i, source += stride) {
      SoftmaxParts& part = parts[own.leaf[i] / op.leaf_stride * op.leaf_count + own.leaf[i] % op.leaf_stride];
      if (part.m == nullptr) place(part);
      for (std::uint32_t r = 0; r < rows; ++r) {
        std::memcpy(part.o + static_cast<std::size_t>(r) * d, source + static_cast<std::size_t>(r) * (d + 2), 4ull * d);
        part.m[r] = source[static_cast<std::size_t>(r) * (d + 2) + d];
        part.l[r] = source[static_cast<std::size_t>(r) * (d + 2) + d + 1];
      }
    }
  }
  for (std::uint32_t slot = 0; slot < op.slots; ++slot) {
    SoftmaxParts* first = parts.data() + static_cast<std::size_t>(slot) * op.leaf_count;
    const bool is_empty =
        std::all_of(first, first + op.leaf_count, [](const SoftmaxParts& p) { return p.m == nullptr; });
    if (is_empty) place(*first);
    if (is_empty) {
      std::fill_n(first->o, static_cast<std::size_t>(rows) * d, 0.0f);
      std::fill_n(first->m, rows, -__builtin_inff());
      std::fill_n(first->l, rows, 0.0f);
    } else {
      softmax_merge_tree(first, op.leaf_count, rows, d);
      // An empty first leaf: the tree's value is where its first present leaf was.
      if (first->m == nullptr)
        first = std::find_if(first, first + op.leaf_count, [](const SoftmaxParts& p) { return p.m != nullptr; });
    }
    softmax_finish(*first, rows, d, dst + static_cast<std::size_t>(slot) * rows * d, d);
  }
}

void reduce(const std::vector<CoreState*>& members, std::byte* dst) {
  const jal_coll_op& op = *members.front()->coll;
  std::vector<const std::byte*> parts;
  parts.reserve(members.size());
  for (const CoreState* member : members) parts.push_back(bytes_of(*member, member->coll->src));
  if (op.op == JAL_REDUCE_SUM) {
    std::vector<const float*> floats;
    floats.reserve(parts.size());
    for (const std::byte* part : parts) floats.push_back(reinterpret_cast<const float*>(part));
    bracket_sum(floats.data(), static_cast<std::uint32_t>(floats.size()), jal_tile_bytes(op.src) / 4,
                reinterpret_cast<float*>(dst));
    return;
  }
  std::memcpy(dst, parts[0], jal_tile_bytes(op.src));
  for (std::size_t p = 1; p < parts.size(); ++p) {
    if (op.op == JAL_REDUCE_MAX) {
      auto* best = reinterpret_cast<float*>(dst);
      const auto* other = reinterpret_cast<const float*>(parts[p]);
      for (std::uint32_t i = 0; i < jal_tile_bytes(op.src) / 4; ++i) best[i] = other[i] > best[i] ? other[i] : best[i];
    } else {
      auto* best = reinterpret_cast<Best*>(dst);
      const auto* other = reinterpret_cast<const Best*>(parts[p]);
      for (std::uint32_t i = 0; i < jal_tile_bytes(op.src) / 8; ++i) {
        if (other[i].value > best[i].value || (other[i].value == best[i].value && other[i].index < best[i].index))
          best[i] = other[i];
      }
    }
  }
}

void gather(const std::vector<CoreState*>& members, std::byte* dst) {
  const std::uint32_t outer = members.front()->coll->outer;
  std::size_t row = 0;
  for (const CoreState* member : members) row += jal_tile_bytes(member->coll->src) / outer;
  std::size_t at = 0;
  for (const CoreState* member : members) {
    const jal_coll_op& op = *member->coll;
    const std::size_t inner = jal_tile_bytes(op.src) / outer;
    if (inner == 0) continue;
    const std::byte* source = bytes_of(*member, op.src);
    for (std::uint32_t o = 0; o < outer; ++o) std::memcpy(dst + o * row + at, source + o * inner, inner);
    at += inner;
  }
}

}  // namespace

std::string Job::check_members(const Collective& collective) const {
  const CoreState* first = nullptr;
  std::uint64_t gathered = 0;
  for (std::uint64_t rest = collective.group; rest != 0; rest &= rest - 1) {
    gathered += jal_tile_bytes(cores_[static_cast<std::uint32_t>(std::countr_zero(rest))].coll->src);
  }
  for (std::uint64_t rest = collective.group; rest != 0; rest &= rest - 1) {
    const CoreState& core = cores_[static_cast<std::uint32_t>(std::countr_zero(rest))];
    if (first == nullptr) first = &core;
    const jal_coll_op& a = *first->coll;
    const jal_coll_op& b = *core.coll;
    const bool is_reduce = a.kind == JAL_COLL_ALLREDUCE || a.kind == JAL_COLL_REDUCE;
    if (a.kind != b.kind || (is_reduce && (a.op != b.op || jal_tile_bytes(a.src) != jal_tile_bytes(b.src))) ||
        ((a.kind == JAL_COLL_BROADCAST || a.kind == JAL_COLL_REDUCE) && a.root != b.root) ||
        (a.kind == JAL_COLL_ALLGATHER && a.outer != b.outer) ||
        (a.kind == JAL_COLL_MERGE && (a.slots != b.slots || a.leaf_stride != b.leaf_stride ||
                                      a.leaf_count != b.leaf_count || a.rows != b.rows || a.head_dim != b.head_dim))) {
      return fmt::format(
          "collective: core {} (kind {}, op {}, root {}, {} bytes) and core {} (kind {}, op {}, root {}, {} bytes) "
          "disagree",
          first->core_id, a.kind, a.op, a.root, jal_tile_bytes(a.src), core.core_id, b.kind, b.op, b.root,
          jal_tile_bytes(b.src));
    }
    std::uint64_t expected = jal_tile_bytes(b.dst);
    if (a.kind == JAL_COLL_ALLGATHER) expected = gathered;
    if (a.kind == JAL_COLL_BROADCAST) expected = jal_tile_bytes(cores_[a.root].coll->src);
    if (is_reduce && has_result(b, core.index)) expected = jal_tile_bytes(b.src);
    if (jal_tile_bytes(b.dst) != expected)
      return fmt::format("collective: core {}'s destination has {} bytes, the result {}", core.core_id,
                         jal_tile_bytes(b.dst), expected);
  }
  return {};
}

SharedBuffer* Job::stage_of(std::uint64_t group, std::uint64_t bytes) {
  Collective& collective = collective_of(group);
  if (collective.stage == nullptr) {
    collective.stage = buffers_.take(bytes, static_cast<std::uint32_t>(std::popcount(group)));
    collective.stage_bytes = bytes;
  }
  return collective.stage_bytes == bytes ? collective.stage : nullptr;
}

/// Parts of equal size, the rule, have a place that each member knows. The worker that ran it has its part in the
/// cache: whoever completes the collective would have to fetch half of them from another CPU, while all wait.
void Job::stage(std::uint64_t cores) {
  std::uint64_t group = 0, bytes = 0;
  SharedBuffer* to = nullptr;
  for (; cores != 0; cores &= cores - 1) {
    CoreState& core = cores_[static_cast<std::uint32_t>(std::countr_zero(cores))];
    if (core.suspension != Suspension::collective || core.coll->kind != JAL_COLL_ALLGATHER) continue;
    const jal_coll_op& op = *core.coll;
    const auto members = static_cast<std::size_t>(std::popcount(op.group));
    const std::size_t result_bytes = jal_tile_bytes(op.dst);
    if (result_bytes == 0 || jal_tile_bytes(op.src) * members != result_bytes) continue;
    if (op.group != group || result_bytes != bytes) {
      const std::lock_guard guard(lock_);
      group = op.group;
      bytes = result_bytes;
      to = stage_of(group, bytes);
    }
    if (to == nullptr) continue;
    const std::size_t inner = jal_tile_bytes(op.src) / op.outer;
    const auto place = static_cast<std::size_t>(std::popcount(group & ((1ull << core.index) - 1)));
    const std::byte* source = bytes_of(core, op.src);
    for (std::uint32_t o = 0; o < op.outer; ++o)
      std::memcpy(to->data + (o * members + place) * inner, source + o * inner, inner);
    core.stage = to;
  }
}

/// Called with the lock held: everybody of the group sleeps. A member's state is in the cache of the CPU that ran it,
/// and looking at it costs that CPU too: only those are looked at that bring something which is not staged.
void Job::complete(Collective& collective) {
  static thread_local std::vector<CoreState*> members;
  members.clear();
  const jal_coll_op& op = collective.first;
  // Members agree on `outer`, and a part that is not whole rows was refused.
  const bool is_staged = op.kind == JAL_COLL_ALLGATHER && collective.stage != nullptr && !collective.is_doubtful &&
                         collective.staged == static_cast<std::uint32_t>(std::popcount(collective.group));
  SharedBuffer* stage = std::exchange(collective.stage, nullptr);
  SharedBuffer* result = is_staged ? stage : nullptr;
  if (stage != nullptr && !is_staged) buffers_.drop(stage, static_cast<std::uint32_t>(std::popcount(collective.group)));
  const CoreState& root = cores_[op.kind == JAL_COLL_BROADCAST || op.kind == JAL_COLL_REDUCE ? op.root : 0];
  const std::uint64_t bytes =
      op.kind == JAL_COLL_BARRIER ? 0 : jal_tile_bytes(op.kind == JAL_COLL_REDUCE ? root.coll->dst : op.dst);
  if (op.kind == JAL_COLL_BROADCAST && bytes > 0) {
    const TileSlot& slot = root.slots[jal_tile_id(root.coll->src) - 1];
    if (slot.binding() == Binding::shared && is_whole(slot, root.coll->src)) {
      result = slot.shared;
      result->references.fetch_add(collective.takers, std::memory_order_relaxed);
    }
  }
  if (result == nullptr && op.kind != JAL_COLL_BARRIER) {
    result = buffers_.take(std::max<std::uint64_t>(bytes, 64), collective.takers);
    if (op.kind == JAL_COLL_BROADCAST) {
      if (bytes > 0) std::memcpy(result->data, bytes_of(root, root.coll->src), bytes);
    } else {
      for (std::uint64_t rest = collective.givers; rest != 0; rest &= rest - 1)
        members.push_back(&cores_[static_cast<std::uint32_t>(std::countr_zero(rest))]);
      if (op.kind == JAL_COLL_ALLGATHER) {
        gather(members, result->data);
      } else if (op.kind == JAL_COLL_MERGE) {
        merge(op, members, reinterpret_cast<float*>(result->data));
      } else if (bytes > 0) {
        reduce(members, result->data);
      }
    }
  }
  const Model& model = charges_.model();
  // A merge or reduction carries the largest contribution up the tree, then the result down.
  const bool is_up = op.kind == JAL_COLL_MERGE || op.kind == JAL_COLL_ALLREDUCE || op.kind == JAL_COLL_REDUCE;
  const std::uint64_t occupied = charges_.collective_ps(bytes + (is_up ? collective.sent_bytes : 0));
  const std::uint64_t latency = op.kind == JAL_COLL_BARRIER ? model.barrier_ps : model.collective_latency_ps;
  collective.result = {0, result, collective.arrival_ps + latency + occupied, occupied};
}

template <bool kSanitize>
jal_ev collective_verb(jal_core* raw, const jal_coll_op* op, jal_after after, const jal_site* site) {
  VerbScope verb(raw, site);
  CoreState& core = verb.core;
  if (std::string wrong = check_own(core, *op); !wrong.empty())
    core.job->fault(core, JAL_ERROR_KERNEL_FAULT, std::move(wrong), site);
  const bool gives = jal_tile_bytes(op->src) > 0 && op->kind != JAL_COLL_BARRIER &&
                     (op->kind != JAL_COLL_BROADCAST || op->root == core.index);
  if (gives)
    (void)source<kSanitize>(core, op->src, jal_tile_bytes(op->src), "collective's src", JAL_ENGINE_COLLECTIVE, after);
  const bool takes = has_result(*op, core.index);
  TileSlot* out = takes && jal_tile_bytes(op->dst) > 0 ? &slot_of(core, op->dst, "collective's dst") : nullptr;
  core.coll = op;
  core.arrival_ps = verb.start_ps(kCollective, after);
  core.takes_result = takes;
  core.job->join_collective(core);
  const CollectiveResult done = *core.collective;
  core.collective = nullptr;
  SharedBuffer* result = takes ? done.data : nullptr;
  const Charges& charges = core.job->charges();
  const std::uint64_t carried = takes ? jal_tile_bytes(op->dst) : jal_tile_bytes(op->src);
  core.bytes_collective += carried;
  core.energy_fj[JAL_UNIT_COLLECTIVE] += charges.collective_fj(carried);
  core.busy_ps[JAL_UNIT_COLLECTIVE] += done.occupied_ps;
  core.free_ps[kCollective] = done.end_ps;
  core.end_ps = std::max(core.end_ps, done.end_ps);
  const jal_ev ev = ticket(core, done.end_ps, JAL_ENGINE_COLLECTIVE);
  if (result == nullptr) return ev;
  if (out == nullptr) {
    drop(core, result);
    return ev;
  }
  if (!kSanitize && is_whole(*out, op->dst)) {
    bind_shared(core, *out, result);
  } else {
    std::memcpy(destination<kSanitize>(core, op->dst, jal_tile_bytes(op->dst), "collective's dst"), result->data,
                jal_tile_bytes(op->dst));
    drop(core, result);
  }
  written_by<kSanitize>(core, op->dst, ev);
  return ev;
}

template jal_ev collective_verb<false>(jal_core*, const jal_coll_op*, jal_after, const jal_site*);
template jal_ev collective_verb<true>(jal_core*, const jal_coll_op*, jal_after, const jal_site*);

}  // namespace jal::emu
