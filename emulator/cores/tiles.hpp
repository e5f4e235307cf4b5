// Tiles of a core: finding the bytes an operation reads or writes, with every range checked.
//
// Zero copy: a load or a collective binds a whole tile to bytes that lie elsewhere; those are only read. Writing into a
// bound tile moves it to the core's own L1 first, with its contents when only a part is written. Sanitize = true:
// nothing is bound (so that overruns meet guards), and initialisation, races and guards are checked.
#pragma once
#include <cstdint>

#include "emulator/cores/job.hpp"

namespace jal::emu {

inline constexpr std::uint32_t kTileAlign = 64;
inline constexpr std::uint32_t kGuardBytes = 64;  // behind each tile under JAL_SANITIZE=memory
inline constexpr std::uint8_t kGuardValue = 0xa5;

/// Core of a verb's first argument.
inline CoreState& state_of(jal_core* core) { return *static_cast<CoreState*>(core); }

/// The slot of a tile; faults when the tile is not of this core, was released, or its range leaves the slot.
TileSlot& slot_of(CoreState& core, jal_tile tile, const char* what);

/// Bytes to read. `engine` reads them (JAL_ENGINE_NONE: the scalar unit); `after` names what it waits for.
template <bool kSanitize>
const std::byte* source(CoreState& core, jal_tile tile, std::uint64_t bytes, const char* what, std::uint32_t engine,
                        jal_after after);

/// Bytes to write in the core's own L1. keep: contents of the range may be read too (a write view).
template <bool kSanitize>
std::byte* destination(CoreState& core, jal_tile tile, std::uint64_t bytes, const char* what, bool keep = false);

/// Says which operation writes the tile, for the race sanitizer.
template <bool kSanitize>
void written_by(CoreState& core, jal_tile tile, jal_ev ev);

/// Makes a whole tile an alias. The slot takes over one reference of `buffer`.
void bind_shared(CoreState& core, TileSlot& slot, SharedBuffer* buffer);
void bind_hbm(CoreState& core, TileSlot& slot, std::byte* data);
/// Gives up what the tile is an alias of. The slot is for unbind() or to be forgotten.
void let_go(CoreState& core, TileSlot& slot);
/// Puts the tile back to the core's own L1 without its contents.
void unbind(CoreState& core, TileSlot& slot);

inline bool is_whole(const TileSlot& slot, jal_tile tile) { return tile.offset == 0 && tile.bytes == slot.bytes; }
inline std::byte* own_bytes(const CoreState& core, const TileSlot& slot) {
  return core.l1 + static_cast<std::size_t>(slot.l1_line) * kTileAlign;
}

/// A sanitizer's finding: one line to the client's text ring, then the dispatch ends with SANITIZER.
[[noreturn]] void report(CoreState& core, const char* sanitizer, std::string&& text);

/// Gives up a reference to a shared buffer.
void drop(CoreState& core, SharedBuffer* buffer);

/// Checks the guard behind a tile (JAL_SANITIZE=memory).
void check_guard(CoreState& core, const TileSlot& slot, std::uint32_t id);

}  // namespace jal::emu
