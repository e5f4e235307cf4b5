// Tiles of a core: finding the bytes an operation reads or writes, with every range checked.
//
// Zero copy: a load or a collective binds a whole tile to bytes that lie elsewhere; those are only read. Writing into a
// bound tile moves it to the core's own L1 first, with its contents when only a part is written. Sanitize = true:
// nothing is bound (so that overruns meet guards), and initialisation, races and guards are checked.
#pragma once
#include <algorithm>
#include <cstdint>
#include <string>

#include "emulator/cores/job.hpp"

namespace jal::emu {

inline constexpr std::uint32_t kTileAlign = 64;
inline constexpr std::uint32_t kGuardBytes = 64;  // behind each tile under JAL_SANITIZE=memory
inline constexpr std::uint8_t kGuardValue = 0xa5;

/// Core of a verb's first argument.
inline CoreState& state_of(jal_core* core) { return *static_cast<CoreState*>(core); }

inline bool is_whole(const TileSlot& slot, jal_tile tile) {
  return jal_tile_offset(tile) == 0 && jal_tile_bytes(tile) == slot.bytes;
}
inline std::byte* own_bytes(const CoreState& core, const TileSlot& slot) {
  return core.l1 + static_cast<std::size_t>(slot.l1_line()) * kTileAlign;
}
/// The slot of a tile that slot_of() has accepted in this verb.
inline TileSlot& known_slot(CoreState& core, jal_tile tile) { return core.slots[jal_tile_id(tile) - 1]; }

/// A sanitizer's finding: one line to the client's text ring, then the dispatch ends with SANITIZER.
[[noreturn]] void report(CoreState& core, const char* sanitizer, std::string&& text);

/// The faults of the functions below, apart so that these stay small enough to be inlined.
[[noreturn]] void tile_fault(CoreState& core, jal_tile tile, const char* what);
[[noreturn]] void time_fault(CoreState& core, std::uint64_t time_ps);
[[noreturn]] void too_small(CoreState& core, jal_tile tile, std::uint64_t bytes, const char* what);
/// Initialisation and races, before a tile is read.
void check_source(CoreState& core, jal_tile tile, std::uint64_t bytes, const char* what, std::uint32_t engine,
                  jal_after after);
/// Moves a bound tile to the core's own L1. keep: with its contents.
void own_again(CoreState& core, TileSlot& slot, bool keep);

/// The slot of a tile; faults when the tile is not of this core, was released, or its range leaves the slot.
inline TileSlot& slot_of(CoreState& core, jal_tile tile, const char* what) {
  const std::uint32_t index = jal_tile_id(tile) - 1;  // no tile becomes the largest number
  if (index >= core.top) [[unlikely]]
    tile_fault(core, tile, what);
  TileSlot& slot = core.slots[index];
  const std::uint32_t offset = jal_tile_offset(tile);
  if (offset > slot.bytes || jal_tile_bytes(tile) > slot.bytes - offset) [[unlikely]]
    tile_fault(core, tile, what);
  return slot;
}

/// Gives up a reference to a shared buffer.
inline void drop(CoreState& core, SharedBuffer* buffer) { core.worker->drops.drop(core.job->buffers(), buffer); }

/// Gives up what the tile is an alias of. The slot is to be bound again or forgotten.
inline void let_go(CoreState& core, TileSlot& slot) {
  if (slot.binding() == Binding::shared) {
    drop(core, slot.shared);
    slot.shared = nullptr;
  } else if (slot.binding() == Binding::hbm) {
    --core.bound_hbm;
  }
}
/// Puts the tile back to the core's own L1 without its contents.
inline void unbind(CoreState& core, TileSlot& slot) {
  let_go(core, slot);
  slot.set_binding(Binding::own);
  slot.data = own_bytes(core, slot);
}
/// Makes a whole tile an alias. The slot takes over one reference of `buffer`.
inline void bind_shared(CoreState& core, TileSlot& slot, SharedBuffer* buffer) {
  let_go(core, slot);
  slot.set_binding(Binding::shared);
  slot.shared = buffer;
  slot.data = buffer->data;
  slot.operand_k = 0;
}
inline void bind_hbm(CoreState& core, TileSlot& slot, std::byte* data) {
  let_go(core, slot);
  slot.set_binding(Binding::hbm);
  slot.data = data;
  slot.operand_k = 0;
  ++core.bound_hbm;
}

/// Bytes to read. `engine` reads them (JAL_ENGINE_NONE: the scalar unit); `after` names what it waits for.
template <bool kSanitize>
const std::byte* source(CoreState& core, jal_tile tile, std::uint64_t bytes, const char* what, std::uint32_t engine,
                        jal_after after) {
  TileSlot& slot = slot_of(core, tile, what);
  if (bytes > jal_tile_bytes(tile)) [[unlikely]]
    too_small(core, tile, bytes, what);
  if (slot.binding() == Binding::empty) unbind(core, slot);
  if constexpr (kSanitize) check_source(core, tile, bytes, what, engine, after);
  return slot.data + jal_tile_offset(tile);
}

/// Bytes to write in the core's own L1. keep: contents of the range may be read too (a write view).
template <bool kSanitize>
std::byte* destination(CoreState& core, jal_tile tile, std::uint64_t bytes, const char* what, bool keep = false) {
  TileSlot& slot = slot_of(core, tile, what);
  const std::uint32_t offset = jal_tile_offset(tile);
  if (bytes > jal_tile_bytes(tile)) [[unlikely]]
    too_small(core, tile, bytes, what);
  if (slot.binding() != Binding::own) own_again(core, slot, keep || offset != 0 || bytes != slot.bytes);
  slot.operand_k = 0;
  if constexpr (kSanitize) {
    TileCheck& check = core.checks[jal_tile_id(tile) - 1];
    std::fill_n(check.written.begin() + offset, bytes, true);
    check.is_writer_waited = true;
  }
  return slot.data + offset;
}

/// Says that the core's latest operation, whose ticket is `ev`, writes the tile: for the race sanitizer.
template <bool kSanitize>
void written_by(CoreState& core, jal_tile tile, jal_ev ev) {
  if constexpr (kSanitize) {
    TileCheck& check = core.checks[jal_tile_id(tile) - 1];
    check.writer_sequence = core.sequence;
    check.writer_engine = jal_ev_engine(ev);
    check.is_writer_waited = false;
  }
}

/// Checks the guard behind a tile (JAL_SANITIZE=memory).
void check_guard(CoreState& core, const TileSlot& slot, std::uint32_t id);

}  // namespace jal::emu
