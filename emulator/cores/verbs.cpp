// The verbs of a core but for vector functions and collectives: L1, DMA, waiting, matrix engine, messages, words.
//
// Each verb works on the host at once and returns the modelled completion time; see verb_scope.hpp and charges.hpp.
#include "emulator/cores/verbs.hpp"

#include <jal/abi/address.h>
#include <jal/abi/instance.h>
#include <jal/abi/status.h>
#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

#include "emulator/cores/cluster.hpp"
#include "emulator/cores/verb_scope.hpp"
#include "emulator/engines/engines.hpp"

namespace jal::emu {
namespace {

WeightFormat weight_format(CoreState& core, std::uint32_t dtype) {
  switch (dtype) {
    case JAL_DTYPE_BF16:
      return WeightFormat::bf16;
    case JAL_DTYPE_MXFP8:
      return WeightFormat::mxfp8;
    case JAL_DTYPE_MXFP4:
      return WeightFormat::mxfp4;
    default:
      core.job->fault(core, JAL_ERROR_TENSOR_DTYPE,
                      fmt::format("gemm: weights of dtype {}; the engine has bf16, mxfp8 and mxfp4", dtype), core.site);
  }
}

ActivationFormat activation_format(CoreState& core, std::uint32_t dtype) {
  if (dtype == JAL_DTYPE_F32) return ActivationFormat::f32;
  if (dtype == JAL_DTYPE_BF16) return ActivationFormat::bf16;
  core.job->fault(core, JAL_ERROR_TENSOR_DTYPE,
                  fmt::format("activations of dtype {}; the engine has f32 and bf16", dtype), core.site);
}

template <bool kSanitize>
jal_tile alloc(jal_core* raw, std::uint32_t bytes, const jal_site* site) {
  VerbScope verb(raw, site);
  CoreState& core = verb.core;
  const std::uint32_t guard = kSanitize ? kGuardBytes : 0;
  const std::uint64_t end =
      core.l1_used + (static_cast<std::uint64_t>(bytes) + guard + kTileAlign - 1) / kTileAlign * kTileAlign;
  // Guards are the tool's own: they do not count against the kernel.
  const std::uint64_t used = end - static_cast<std::uint64_t>(guard) * (core.top + 1);
  if (used > core.l1_bytes) {
    core.job->fault(
        core, JAL_ERROR_L1_OVERFLOW,
        fmt::format("{} bytes asked, {} of {} bytes of L1 are in use by {} tiles; use smaller tiles or release some",
                    bytes, core.l1_used - guard * core.top, core.l1_bytes, core.top),
        site);
  }
  if (core.top == JAL_TILE_ID_MAX) {
    core.job->fault(core, JAL_ERROR_L1_OVERFLOW,
                    fmt::format("{} tiles are in use, the most that a core can name; release some", core.top), site);
  }
  if (core.top == core.slots.size()) core.slots.emplace_back();
  TileSlot& slot = core.slots[core.top++];
  slot.open(bytes, core.l1_used / kTileAlign);
  core.l1_used = static_cast<std::uint32_t>(end);
  if constexpr (kSanitize) {
    if (core.checks.size() < core.top) core.checks.resize(core.top);
    TileCheck& check = core.checks[core.top - 1];
    check.is_writer_waited = true;
    check.written.assign(bytes, false);
    std::memset(own_bytes(core, slot) + bytes, kGuardValue, kGuardBytes);
  }
  return jal_tile_make(core.top, 0, bytes);
}

template <bool kSanitize>
void release(jal_core* raw, jal_tile from, const jal_site* site) {
  VerbScope verb(raw, site);
  CoreState& core = verb.core;
  const std::uint32_t id = jal_tile_id(from);
  const TileSlot& first = slot_of(core, jal_tile_make(id, 0, 0), "release");
  const std::uint32_t l1_used = first.l1_line() * kTileAlign;
  for (std::uint32_t i = id - 1; i < core.top; ++i) {
    if (kSanitize && (core.job->sanitize() & JAL_SANITIZE_MEMORY) != 0) check_guard(core, core.slots[i], i + 1);
    let_go(core, core.slots[i]);
  }
  core.top = id - 1;
  core.l1_used = l1_used;
}

/// hbm_window() for a grant that the core did not use last.
[[gnu::noinline]] std::byte* find_hbm(CoreState& core, std::uint64_t address, std::uint64_t bytes, const char* what) {
  if (JAL_ADDRESS_SPACE(address) != JAL_SPACE_HBM) {
    core.job->fault(core, JAL_ERROR_BAD_ADDRESS, fmt::format("{}: {:#x} is not an HBM address", what, address),
                    core.site, address);
  }
  const Hbm::Window window = core.job->hbm().resolve(core.job->client(), address);
  if (window.data == nullptr || window.bytes < bytes) {
    std::string text = fmt::format("{} of {} bytes at {:#x} (slice {}, offset {:#x}): the memory there ", what, bytes,
                                   address, JAL_ADDRESS_SLICE(address), JAL_ADDRESS_OFFSET(address));
    if (window.data != nullptr) {
      text += fmt::format("ends after {} bytes", window.bytes);
    } else {
      text += window.foreign ? "belongs to another client" : "is not mapped";
    }
    core.job->fault(core, window.foreign ? JAL_ERROR_FOREIGN_ADDRESS : JAL_ERROR_BAD_ADDRESS, std::move(text),
                    core.site, address);
  }
  core.grant = {window.grant_base, window.grant_bytes, window.data - (address - window.grant_base)};
  return window.data;
}

/// The bytes of a load or store; faults when they are not mapped for this client.
std::byte* hbm_window(CoreState& core, std::uint64_t address, std::uint64_t bytes, const char* what) {
  const std::uint64_t within = address - core.grant.address;
  if (within < core.grant.bytes && bytes <= core.grant.bytes - within) [[likely]]
    return core.grant.data + within;
  return find_hbm(core, address, bytes, what);
}

/// Time and accounts of moving bytes between L1 and a slice.
jal_ev charge_dma(VerbScope& verb, std::uint64_t address, std::uint64_t bytes, jal_after after) {
  CoreState& core = verb.core;
  const Charges& charges = core.job->charges();
  const std::uint32_t slice = JAL_ADDRESS_SLICE(address);
  const std::uint64_t start = verb.start_ps(kDma, after);
  std::uint64_t occupied = charges.local_hbm_ps(bytes);
  std::uint64_t latency = charges.model().dma_start_ps;
  core.energy_fj[JAL_UNIT_HBM] += charges.hbm_fj(bytes);
  core.energy_fj[JAL_UNIT_SCALAR] += charges.l1_fj(bytes);
  core.busy_ps[JAL_UNIT_HBM] += occupied;
  if (slice == core.core_id) {
    core.bytes_local += bytes;
  } else {
    const std::uint32_t hops = charges.hops(core.core_id, slice);
    occupied = std::max(occupied, charges.remote_hbm_ps(bytes));
    latency += charges.model().noc_start_ps + 2 * hops * charges.model().noc_hop_ps;
    core.bytes_remote += bytes;
    core.bytes_noc += bytes;
    core.energy_fj[JAL_UNIT_NOC] += charges.noc_fj(bytes, hops);
    core.busy_ps[JAL_UNIT_NOC] += charges.noc_ps(bytes);
    core.job->count_link_bytes(slice, core.core_id, bytes);
  }
  return verb.finish(kDma, JAL_UNIT_SCALAR, start, occupied, latency);
}

void check_locality(CoreState& core, std::uint64_t address, std::uint64_t bytes, const char* what) {
  if ((core.job->sanitize() & JAL_SANITIZE_LOCALITY) == 0 || JAL_ADDRESS_SLICE(address) == core.core_id) return;
  report(core, "locality",
         fmt::format("{} of {} bytes in slice {}; core {}'s own slice is {}", what, bytes, JAL_ADDRESS_SLICE(address),
                     core.core_id, core.core_id));
}

template <bool kSanitize>
jal_ev load(jal_core* raw, jal_tile dst, std::uint64_t src, std::uint32_t bytes, jal_after after,
            const jal_site* site) {
  VerbScope verb(raw, site);
  CoreState& core = verb.core;
  std::byte* from = hbm_window(core, src, bytes, "load");
  TileSlot& slot = slot_of(core, dst, "load");
  if constexpr (kSanitize) check_locality(core, src, bytes, "load");
  const bool is_bindable = !kSanitize && jal_tile_offset(dst) == 0 && bytes == slot.bytes &&
                           reinterpret_cast<std::uintptr_t>(from) % kTileAlign == 0;
  if (is_bindable) {
    bind_hbm(core, slot, from);
  } else {
    std::memcpy(destination<kSanitize>(core, dst, bytes, "load"), from, bytes);
  }
  const jal_ev ev = charge_dma(verb, src, bytes, after);
  written_by<kSanitize>(core, dst, ev);
  return ev;
}

template <bool kSanitize>
jal_ev store(jal_core* raw, std::uint64_t dst, jal_tile src, std::uint32_t bytes, jal_after after,
             const jal_site* site) {
  VerbScope verb(raw, site);
  CoreState& core = verb.core;
  std::byte* to = hbm_window(core, dst, bytes, "store");
  if constexpr (kSanitize) check_locality(core, dst, bytes, "store");
  const std::byte* from = source<kSanitize>(core, src, bytes, "store", JAL_ENGINE_DMA, after);
  // A tile that aliases the bytes about to change keeps its old contents.
  for (std::uint32_t i = 0; core.bound_hbm > 0 && i < core.top; ++i) {
    TileSlot& slot = core.slots[i];
    if (slot.binding() != Binding::hbm || slot.data >= to + bytes || to >= slot.data + slot.bytes) continue;
    const std::byte* old = slot.data;
    const bool is_source = from >= old && from < old + slot.bytes;
    std::memcpy(own_bytes(core, slot), old, slot.bytes);
    unbind(core, slot);
    if (is_source) from = slot.data + (from - old);
  }
  std::memcpy(to, from, bytes);
  return charge_dma(verb, dst, bytes, after);
}

template <bool kSanitize>
void wait(jal_core* raw, jal_ev ev, const jal_site* site) {
  VerbScope verb(raw, site);
  CoreState& core = verb.core;
  if constexpr (kSanitize) {
    const std::uint32_t sequence = jal_ev_sequence(ev, core.sequence);
    for (std::uint32_t i = 0; i < core.top; ++i) {
      TileCheck& check = core.checks[i];
      // An engine completes in order, so earlier operations of the same engine are complete too.
      if (check.writer_engine == jal_ev_engine(ev) && check.writer_sequence <= sequence) check.is_writer_waited = true;
    }
  }
  const std::uint64_t time_ps = core.start_ps + jal_ev_time_ps(ev);
  if (time_ps <= core.now_ps) return;
  if (core.job->is_traced()) core.waits.push_back({core.now_ps, time_ps});
  core.now_ps = time_ps;
}

template <bool kSanitize>
void* view(jal_core* raw, jal_tile tile, std::uint32_t mode, const jal_site* site) {
  VerbScope verb(raw, site);
  CoreState& core = verb.core;
  if (mode == JAL_VIEW_READ) {
    return const_cast<std::byte*>(
        source<kSanitize>(core, tile, jal_tile_bytes(tile), "view", JAL_ENGINE_NONE, {nullptr, 0}));
  }
  if constexpr (kSanitize) {
    (void)slot_of(core, tile, "view");
    if ((core.job->sanitize() & JAL_SANITIZE_RACE) != 0 && !core.checks[jal_tile_id(tile) - 1].is_writer_waited)
      (void)source<true>(core, jal_tile_make(jal_tile_id(tile), 0, 0), 0, "write view", JAL_ENGINE_NONE, {nullptr, 0});
  }
  return destination<kSanitize>(core, tile, jal_tile_bytes(tile), "view", true);
}

template <bool kSanitize>
jal_ev prepare(jal_core* raw, const jal_prepare_op* op, jal_after after, const jal_site* site) {
  VerbScope verb(raw, site);
  CoreState& core = verb.core;
  const ActivationFormat format = activation_format(core, op->activation_dtype);
  if (op->k == 0 || (op->m > 1 && op->x_stride < op->k)) {
    core.job->fault(core, JAL_ERROR_KERNEL_FAULT,
                    fmt::format("prepare: k {}, m {}, x_stride {}", op->k, op->m, op->x_stride), site);
  }
  const std::uint64_t x_bytes = op->m == 0 ? 0 : ((op->m - 1ull) * op->x_stride + op->k) * 4;
  const std::uint64_t bytes = operand_bytes(format, op->k, op->m);
  const auto* x = source<kSanitize>(core, op->x, x_bytes, "prepare's x", JAL_ENGINE_VECTOR, after);
  TileSlot& out = slot_of(core, op->operand, "prepare's operand");
  SharedBuffer* shared = x_bytes == 0 ? nullptr : known_slot(core, op->x).shared;
  if (!kSanitize && shared != nullptr && is_whole(out, op->operand) && jal_tile_bytes(op->operand) >= bytes) {
    const SharedBuffer::Key key{1,
                                static_cast<std::uint32_t>(x - shared->data),
                                op->k,
                                op->m,
                                op->x_stride * 4 + static_cast<std::uint32_t>(format),
                                0,
                                0,
                                0};
    SharedBuffer* result = SharedPool::recall(shared, key, core.worker->index);
    if (result == nullptr) {
      result = core.job->buffers().take(bytes, 1);
      (void)prepare_operand(format, reinterpret_cast<const float*>(x), op->x_stride, op->k, op->m, result->data);
      SharedPool::keep(shared, key, result);
    }
    bind_shared(core, out, result);
  } else {
    std::byte* to = destination<kSanitize>(core, op->operand, bytes, "prepare's operand");
    if (reinterpret_cast<std::uintptr_t>(to) % kTileAlign != 0)
      core.job->fault(core, JAL_ERROR_UNALIGNED_ADDRESS,
                      "prepare: the operand's tile does not start at a multiple of 64", site);
    (void)prepare_operand(format, reinterpret_cast<const float*>(x), op->x_stride, op->k, op->m, to);
  }
  out.set_operand_activation(op->activation_dtype);
  out.operand_k = op->k;
  out.operand_m = op->m;
  const Charges& charges = core.job->charges();
  const std::uint64_t operations = static_cast<std::uint64_t>(op->k) * op->m;
  core.energy_fj[JAL_UNIT_VECTOR] += charges.vector_fj(operations);
  core.energy_fj[JAL_UNIT_SCALAR] += charges.l1_fj(x_bytes + bytes);
  const jal_ev ev = verb.finish(kVector, JAL_UNIT_VECTOR, verb.start_ps(kVector, after), charges.vector_ps(operations),
                                charges.model().engine_start_ps);
  written_by<kSanitize>(core, op->operand, ev);
  return ev;
}

/// The core that this worker runs next is likely to be at the same place of the same kernel: its weights, which nothing
/// has read yet, may come from memory while this core's are multiplied. nullptr: it has none there.
const std::byte* next_weights(const CoreState& core, jal_tile weights, std::uint64_t bytes) {
  const CoreState* next = core.worker->ahead;
  const std::uint32_t id = jal_tile_id(weights), offset = jal_tile_offset(weights);
  if (next == nullptr || next->top < id) return nullptr;
  const TileSlot& slot = next->slots[id - 1];
  if (slot.binding() != Binding::hbm || slot.bytes < offset + bytes) return nullptr;
  return slot.data + offset;
}

template <bool kSanitize>
jal_ev gemm(jal_core* raw, const jal_gemm_op* op, jal_after after, const jal_site* site) {
  VerbScope verb(raw, site);
  CoreState& core = verb.core;
  const WeightFormat weights_as = weight_format(core, op->weight_dtype);
  const ActivationFormat format = activation_format(core, op->activation_dtype);
  const bool panels_ok = op->panels == 8 || op->panels == 4 || op->panels == 2 || op->panels == 1;
  if (op->k == 0 || op->rows == 0 || !panels_ok || (op->m > 1 && op->y_stride < op->rows) ||
      !gemm_supported(weights_as, format)) {
    core.job->fault(core, JAL_ERROR_KERNEL_FAULT,
                    fmt::format("gemm {} x {}: rows {}, k {}, m {}, y_stride {}, panels {}: not a legal operation",
                                weight_format_name(weights_as), activation_format_name(format), op->rows, op->k, op->m,
                                op->y_stride, op->panels),
                    site);
  }
  const std::uint64_t weight_bytes = emu::weight_tile_bytes(weights_as, op->rows, op->k);
  const std::uint64_t y_bytes = op->m == 0 ? 0 : ((op->m - 1ull) * op->y_stride + op->rows) * 4;
  const auto* weights = source<kSanitize>(core, op->weights, weight_bytes, "gemm's weights", JAL_ENGINE_MATRIX, after);
  const auto* operand = source<kSanitize>(core, op->operand, 0, "gemm's operand", JAL_ENGINE_MATRIX, after);
  const TileSlot& prepared = known_slot(core, op->operand);
  if (jal_tile_offset(op->operand) != 0 || prepared.operand_k != op->k || prepared.operand_m != op->m ||
      prepared.operand_activation() != op->activation_dtype) {
    core.job->fault(
        core, JAL_ERROR_KERNEL_FAULT,
        fmt::format("gemm: the operand tile was not prepared for k {}, m {}, dtype {} (it holds k {}, m {}, dtype {})",
                    op->k, op->m, op->activation_dtype, prepared.operand_k, prepared.operand_m,
                    prepared.operand_activation()),
        site);
  }
  if (reinterpret_cast<std::uintptr_t>(weights) % kTileAlign != 0)
    core.job->fault(core, JAL_ERROR_UNALIGNED_ADDRESS, "gemm: the weights' tile does not start at a multiple of 64",
                    site);
  auto* y = reinterpret_cast<float*>(destination<kSanitize>(core, op->y, y_bytes, "gemm's y"));
  emu::gemm(weights_as, format, weights, op->rows, op->k, reinterpret_cast<const Operand*>(operand), op->m, y,
            op->y_stride, op->panels, next_weights(core, op->weights, weight_bytes));
  const Charges& charges = core.job->charges();
  const bool is_f32 = format == ActivationFormat::f32;
  const std::uint64_t flops = 2ull * op->rows * op->k * op->m;
  core.energy_fj[JAL_UNIT_MATRIX] += charges.matrix_fj(flops, is_f32);
  core.energy_fj[JAL_UNIT_SCALAR] += charges.l1_fj(weight_bytes + operand_bytes(format, op->k, op->m) + y_bytes);
  const jal_ev ev = verb.finish(kMatrix, JAL_UNIT_MATRIX, verb.start_ps(kMatrix, after),
                                charges.matrix_ps(flops, is_f32), charges.model().engine_start_ps);
  written_by<kSanitize>(core, op->y, ev);
  return ev;
}

template <bool kSanitize>
jal_ev attention(jal_core* raw, const jal_attention_op* op, jal_after after, const jal_site* site) {
  VerbScope verb(raw, site);
  CoreState& core = verb.core;
  const std::uint32_t d = op->head_dim;
  if (d == 0 || d > 512 || op->rows == 0 || op->rows > 65536 || op->tokens > 65536 ||
      (op->rows > 1 && op->q_stride < d)) {
    core.job->fault(core, JAL_ERROR_KERNEL_FAULT,
                    fmt::format("attention: rows {}, head_dim {}, tokens {}, q_stride {}: not a legal operation",
                                op->rows, d, op->tokens, op->q_stride),
                    site);
  }
  const std::uint64_t q_bytes = ((op->rows - 1ull) * op->q_stride + d) * 4;
  const std::uint64_t kv_bytes = 2ull * op->tokens * d;
  const std::uint64_t part_bytes = static_cast<std::uint64_t>(op->rows) * (d + 2) * 4;
  Queries queries;
  queries.q = reinterpret_cast<const float*>(
      source<kSanitize>(core, op->q, q_bytes, "attention's q", JAL_ENGINE_MATRIX, after));
  queries.stride = op->q_stride;
  queries.rows = op->rows;
  queries.head_dim = d;
  queries.scale = op->scale;
  if (jal_tile_id(op->visible) != 0) {
    queries.visible = reinterpret_cast<const std::uint32_t*>(
        source<kSanitize>(core, op->visible, op->rows * 4ull, "attention's visible", JAL_ENGINE_MATRIX, after));
    for (std::uint32_t r = 0; r < op->rows; ++r) {
      if (queries.visible[r] > op->tokens)
        core.job->fault(
            core, JAL_ERROR_KERNEL_FAULT,
            fmt::format("attention: row {} sees {} tokens of a page of {}", r, queries.visible[r], op->tokens), site);
    }
  }
  KvPage page;
  if (op->tokens > 0) {
    page.keys = reinterpret_cast<const std::uint16_t*>(
        source<kSanitize>(core, op->keys, kv_bytes, "attention's keys", JAL_ENGINE_MATRIX, after));
    page.values = reinterpret_cast<const std::uint16_t*>(
        source<kSanitize>(core, op->values, kv_bytes, "attention's values", JAL_ENGINE_MATRIX, after));
  }
  page.key_stride = page.value_stride = d;
  page.tokens = op->tokens;
  auto* parts = reinterpret_cast<float*>(destination<kSanitize>(core, op->parts, part_bytes, "attention's parts"));
  static thread_local std::vector<float> ml;
  ml.resize(2 * op->rows);
  SoftmaxParts out;
  out.m = ml.data();
  out.l = ml.data() + op->rows;
  out.o = parts;
  out.o_stride = d + 2;
  attention_page(queries, page, out);
  for (std::uint32_t r = 0; r < op->rows; ++r) {
    parts[r * (d + 2) + d] = out.m[r];
    parts[r * (d + 2) + d + 1] = out.l[r];
  }
  const Charges& charges = core.job->charges();
  const std::uint64_t scores = static_cast<std::uint64_t>(op->rows) * op->tokens;
  const std::uint64_t flops = 4 * scores * d;
  const std::uint64_t vector = scores * (vector_operations(JAL_VEC_EXP) + 2);
  core.energy_fj[JAL_UNIT_MATRIX] += charges.matrix_fj(flops, true);
  core.energy_fj[JAL_UNIT_VECTOR] += charges.vector_fj(vector);
  core.energy_fj[JAL_UNIT_SCALAR] += charges.l1_fj(q_bytes + 2 * kv_bytes + part_bytes);
  const std::uint64_t vector_ps = charges.vector_ps(vector);
  core.busy_ps[JAL_UNIT_VECTOR] += vector_ps;
  // The matrix engine scores, the vector engine exponentiates, the matrix engine mixes: one after the other for one
  // page.
  const jal_ev ev = verb.finish(kMatrix, JAL_UNIT_MATRIX, verb.start_ps(kMatrix, after), charges.matrix_ps(flops, true),
                                vector_ps + 2 * charges.model().engine_start_ps);
  written_by<kSanitize>(core, op->parts, ev);
  return ev;
}

template <bool kSanitize>
jal_ev send(jal_core* raw, std::uint32_t to, jal_tile src, jal_after after, const jal_site* site) {
  VerbScope verb(raw, site);
  CoreState& core = verb.core;
  if (to >= core.count || to == core.index) {
    core.job->fault(core, JAL_ERROR_KERNEL_FAULT,
                    fmt::format("send to rank {}: the dispatch has ranks 0 to {}, and {} is the sender", to,
                                core.count - 1, core.index),
                    site);
  }
  const std::uint32_t bytes = jal_tile_bytes(src);
  const std::byte* from = source<kSanitize>(core, src, bytes, "send", JAL_ENGINE_NOC, after);
  SharedBuffer* data = core.job->buffers().take(bytes, 1);
  std::memcpy(data->data, from, bytes);
  const Charges& charges = core.job->charges();
  const std::uint32_t target = core.job->cores()[to].core_id;
  const std::uint32_t hops = charges.hops(core.core_id, target);
  const std::uint64_t start = verb.start_ps(kNoc, after);
  const std::uint64_t occupied = charges.noc_ps(bytes);
  core.bytes_noc += bytes;
  core.energy_fj[JAL_UNIT_NOC] += charges.noc_fj(bytes, hops);
  core.job->count_link_bytes(core.core_id, target, bytes);
  const jal_ev ev = verb.finish(kNoc, JAL_UNIT_NOC, start, occupied, 0);
  core.job->send(core, to, data, bytes,
                 core.start_ps + jal_ev_time_ps(ev) + charges.model().noc_start_ps + hops * charges.model().noc_hop_ps);
  return ev;
}

template <bool kSanitize>
jal_ev recv(jal_core* raw, std::uint32_t from, jal_tile dst, const jal_site* site) {
  VerbScope verb(raw, site);
  CoreState& core = verb.core;
  if (from >= core.count || from == core.index) {
    core.job->fault(core, JAL_ERROR_KERNEL_FAULT,
                    fmt::format("recv from rank {}: the dispatch has ranks 0 to {}, and {} is the receiver", from,
                                core.count - 1, core.index),
                    site);
  }
  TileSlot& slot = slot_of(core, dst, "recv");
  core.recv_from = from;
  core.job->receive(core);
  if (core.recv_bytes != jal_tile_bytes(dst)) {
    core.job->fault(
        core, JAL_ERROR_KERNEL_FAULT,
        fmt::format("recv of {} bytes from rank {}: it sent {}", jal_tile_bytes(dst), from, core.recv_bytes), site);
  }
  SharedBuffer* data = core.delivered;
  core.delivered = nullptr;
  if (!kSanitize && is_whole(slot, dst)) {
    bind_shared(core, slot, data);
  } else {
    std::memcpy(destination<kSanitize>(core, dst, jal_tile_bytes(dst), "recv"), data->data, jal_tile_bytes(dst));
    drop(core, data);
  }
  core.end_ps = std::max(core.end_ps, core.ready_ps);
  const jal_ev ev = ticket(core, core.ready_ps, JAL_ENGINE_NOC);
  written_by<kSanitize>(core, dst, ev);
  return ev;
}

void print(jal_core* raw, const char* text, std::uint32_t bytes) {
  VerbScope verb(raw, nullptr);
  verb.core.job->print(verb.core, {text, bytes});
}

void fault(jal_core* raw, std::int32_t status, const char* text, const jal_site* site) {
  VerbScope verb(raw, site);
  verb.core.job->fault(verb.core, status == JAL_OK ? JAL_ERROR_KERNEL_FAULT : status, text, site);
}

std::uint64_t clock_ps(jal_core* raw) { return state_of(raw).now_ps; }

std::uint32_t operand_bytes_of(std::uint32_t activation_dtype, std::uint32_t k, std::uint32_t m) {
  return static_cast<std::uint32_t>(operand_bytes(
      activation_dtype == JAL_DTYPE_F32 ? ActivationFormat::f32 : ActivationFormat::bf16, k == 0 ? 1 : k, m));
}

std::uint64_t weight_tile_bytes_of(std::uint32_t weight_dtype, std::uint32_t rows, std::uint32_t k) {
  const WeightFormat format = weight_dtype == JAL_DTYPE_BF16    ? WeightFormat::bf16
                              : weight_dtype == JAL_DTYPE_MXFP8 ? WeightFormat::mxfp8
                                                                : WeightFormat::mxfp4;
  return emu::weight_tile_bytes(format, rows, k == 0 ? 1 : k);
}

template <bool kSanitize>
constexpr jal_core_verbs make_verbs() {
  return {sizeof(jal_core_verbs),
          JAL_CORE_VERSION,
          alloc<kSanitize>,
          release<kSanitize>,
          load<kSanitize>,
          store<kSanitize>,
          wait<kSanitize>,
          view<kSanitize>,
          prepare<kSanitize>,
          gemm<kSanitize>,
          attention<kSanitize>,
          vector_verb<kSanitize>,
          collective_verb<kSanitize>,
          send<kSanitize>,
          recv<kSanitize>,
          print,
          fault,
          clock_ps,
          operand_bytes_of,
          weight_tile_bytes_of,
          {}};
}

const jal_core_verbs kVerbs = make_verbs<false>();
const jal_core_verbs kSanitizedVerbs = make_verbs<true>();

}  // namespace

const jal_core_verbs* core_verbs(bool is_sanitized) { return is_sanitized ? &kSanitizedVerbs : &kVerbs; }

}  // namespace jal::emu
