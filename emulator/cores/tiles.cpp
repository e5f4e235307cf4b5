// Tiles. See tiles.hpp.
#include "emulator/cores/tiles.hpp"

#include <jal/abi/instance.h>
#include <jal/abi/status.h>
#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <cstring>
#include <utility>

namespace jal::emu {

TileSlot& slot_of(CoreState& core, jal_tile tile, const char* what) {
  if (tile.id == 0 || tile.id > core.top) {
    core.job->fault(
        core, JAL_ERROR_KERNEL_FAULT,
        fmt::format("{}: tile {} does not exist (tiles 1 to {} are allocated); it was released or never allocated",
                    what, tile.id, core.top),
        core.site);
  }
  TileSlot& slot = core.slots[tile.id - 1];
  if (tile.offset > slot.bytes || tile.bytes > slot.bytes - tile.offset) {
    std::string text = fmt::format("{}: bytes {} to {} of tile {}, which has {}", what, tile.offset,
                                   static_cast<std::uint64_t>(tile.offset) + tile.bytes, tile.id, slot.bytes);
    if ((core.job->sanitize() & JAL_SANITIZE_MEMORY) != 0) report(core, "memory", std::move(text));
    core.job->fault(core, JAL_ERROR_KERNEL_FAULT, std::move(text), core.site);
  }
  return slot;
}

void report(CoreState& core, const char* sanitizer, std::string&& text) {
  text.insert(0, fmt::format("{}: ", sanitizer));
  core.job->fault(core, JAL_ERROR_SANITIZER, std::move(text), core.site);
}

void drop(CoreState& core, SharedBuffer* buffer) { core.worker->drops.drop(core.job->buffers(), buffer); }

void let_go(CoreState& core, TileSlot& slot) {
  if (slot.binding == Binding::shared) {
    drop(core, slot.shared);
    slot.shared = nullptr;
  } else if (slot.binding == Binding::hbm) {
    --core.bound_hbm;
  }
}

void unbind(CoreState& core, TileSlot& slot) {
  let_go(core, slot);
  slot.binding = Binding::own;
  slot.data = own_bytes(core, slot);
}

void bind_shared(CoreState& core, TileSlot& slot, SharedBuffer* buffer) {
  unbind(core, slot);
  slot.binding = Binding::shared;
  slot.shared = buffer;
  slot.data = buffer->data;
  slot.operand_k = 0;
}

void bind_hbm(CoreState& core, TileSlot& slot, std::byte* data) {
  unbind(core, slot);
  slot.binding = Binding::hbm;
  slot.data = data;
  slot.operand_k = 0;
  ++core.bound_hbm;
}

namespace {

void too_small(CoreState& core, jal_tile tile, std::uint64_t bytes, const char* what) {
  std::string text = fmt::format("{} needs {} bytes, its tile has {}", what, bytes, tile.bytes);
  if ((core.job->sanitize() & JAL_SANITIZE_MEMORY) != 0) report(core, "memory", std::move(text));
  core.job->fault(core, JAL_ERROR_KERNEL_FAULT, std::move(text), core.site);
}

void check_race(CoreState& core, const TileCheck& check, const char* what, std::uint32_t engine, jal_after after) {
  if (check.is_writer_waited) return;
  // An engine executes its own operations in order.
  if (engine != JAL_ENGINE_NONE && engine == check.writer_engine) return;
  for (std::uint32_t i = 0; i < after.count; ++i) {
    if (after.ev[i].sequence == check.writer_sequence) return;
  }
  constexpr const char* kEngines[] = {"the scalar unit",        "the DMA", "the matrix engine", "the vector engine",
                                      "the collective network", "the NoC"};
  report(core, "race",
         fmt::format("{} is read before {} has written it; wait for that operation's ticket, or pass it as `after`",
                     what, kEngines[std::min<std::uint32_t>(check.writer_engine, 5)]));
}

}  // namespace

template <bool kSanitize>
const std::byte* source(CoreState& core, jal_tile tile, std::uint64_t bytes, const char* what, std::uint32_t engine,
                        jal_after after) {
  TileSlot& slot = slot_of(core, tile, what);
  if (bytes > tile.bytes) too_small(core, tile, bytes, what);
  if (slot.binding == Binding::empty) unbind(core, slot);
  if constexpr (kSanitize) {
    const TileCheck& check = core.checks[tile.id - 1];
    const std::uint32_t bits = core.job->sanitize();
    if ((bits & JAL_SANITIZE_RACE) != 0) check_race(core, check, what, engine, after);
    if ((bits & JAL_SANITIZE_INIT) != 0) {
      const auto begin = check.written.begin() + tile.offset;
      const auto hole = std::find(begin, begin + static_cast<std::ptrdiff_t>(bytes), false);
      if (hole != begin + static_cast<std::ptrdiff_t>(bytes)) {
        report(core, "init",
               fmt::format("{}: byte {} of tile {} is read and was never written", what, hole - check.written.begin(),
                           tile.id));
      }
    }
  }
  return slot.data + tile.offset;
}

template <bool kSanitize>
std::byte* destination(CoreState& core, jal_tile tile, std::uint64_t bytes, const char* what, bool keep) {
  TileSlot& slot = slot_of(core, tile, what);
  if (bytes > tile.bytes) too_small(core, tile, bytes, what);
  if (slot.binding != Binding::own) {
    const std::byte* old = slot.data;
    const bool is_bound = slot.binding == Binding::hbm || slot.binding == Binding::shared;
    if (is_bound && (keep || !(tile.offset == 0 && bytes == slot.bytes)))
      std::memcpy(own_bytes(core, slot), old, slot.bytes);
    unbind(core, slot);
  }
  slot.operand_k = 0;
  if constexpr (kSanitize) {
    TileCheck& check = core.checks[tile.id - 1];
    std::fill_n(check.written.begin() + tile.offset, bytes, true);
    check.is_writer_waited = true;
  }
  return slot.data + tile.offset;
}

template <bool kSanitize>
void written_by(CoreState& core, jal_tile tile, jal_ev ev) {
  if constexpr (kSanitize) {
    TileCheck& check = core.checks[tile.id - 1];
    check.writer_sequence = ev.sequence;
    check.writer_engine = ev.engine;
    check.is_writer_waited = false;
  }
}

template const std::byte* source<false>(CoreState&, jal_tile, std::uint64_t, const char*, std::uint32_t, jal_after);
template const std::byte* source<true>(CoreState&, jal_tile, std::uint64_t, const char*, std::uint32_t, jal_after);
template std::byte* destination<false>(CoreState&, jal_tile, std::uint64_t, const char*, bool);
template std::byte* destination<true>(CoreState&, jal_tile, std::uint64_t, const char*, bool);
template void written_by<false>(CoreState&, jal_tile, jal_ev);
template void written_by<true>(CoreState&, jal_tile, jal_ev);

void check_guard(CoreState& core, const TileSlot& slot, std::uint32_t id) {
  const std::byte* guard = own_bytes(core, slot) + slot.bytes;
  for (std::uint32_t i = 0; i < kGuardBytes; ++i) {
    if (guard[i] == std::byte{kGuardValue}) continue;
    report(core, "memory",
           fmt::format("byte {} was written behind tile {}, which has {} bytes", slot.bytes + i, id, slot.bytes));
  }
}

}  // namespace jal::emu
