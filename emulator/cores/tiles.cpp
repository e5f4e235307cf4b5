// Tiles. See tiles.hpp.
#include "emulator/cores/tiles.hpp"

#include <jal/abi/instance.h>
#include <jal/abi/status.h>
#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <cstring>
#include <utility>

namespace jal::emu {

void tile_fault(CoreState& core, jal_tile tile, const char* what) {
  const std::uint32_t id = jal_tile_id(tile);
  if (id == 0 || id > core.top) {
    core.job->fault(
        core, JAL_ERROR_KERNEL_FAULT,
        fmt::format("{}: tile {} does not exist (tiles 1 to {} are allocated); it was released or never allocated",
                    what, id, core.top),
        core.site);
  }
  const std::uint64_t offset = jal_tile_offset(tile);
  std::string text = fmt::format("{}: bytes {} to {} of tile {}, which has {}", what, offset,
                                 offset + jal_tile_bytes(tile), id, known_slot(core, tile).bytes);
  if ((core.job->sanitize() & JAL_SANITIZE_MEMORY) != 0) report(core, "memory", std::move(text));
  core.job->fault(core, JAL_ERROR_KERNEL_FAULT, std::move(text), core.site);
}

void report(CoreState& core, const char* sanitizer, std::string&& text) {
  text.insert(0, fmt::format("{}: ", sanitizer));
  core.job->fault(core, JAL_ERROR_SANITIZER, std::move(text), core.site);
}

void time_fault(CoreState& core, std::uint64_t time_ps) {
  core.job->fault(core, JAL_ERROR_KERNEL_FAULT,
                  fmt::format("the kernel has come to {} ps of device time; a dispatch has {} at most: launch several",
                              time_ps, JAL_EV_TIME_MAX),
                  core.site);
}

void too_small(CoreState& core, jal_tile tile, std::uint64_t bytes, const char* what) {
  std::string text = fmt::format("{} needs {} bytes, its tile has {}", what, bytes, jal_tile_bytes(tile));
  if ((core.job->sanitize() & JAL_SANITIZE_MEMORY) != 0) report(core, "memory", std::move(text));
  core.job->fault(core, JAL_ERROR_KERNEL_FAULT, std::move(text), core.site);
}

namespace {

void check_race(CoreState& core, const TileCheck& check, const char* what, std::uint32_t engine, jal_after after) {
  if (check.is_writer_waited) return;
  // An engine executes its own operations in order.
  if (engine != JAL_ENGINE_NONE && engine == check.writer_engine) return;
  for (std::uint64_t i = 0; i < after.count; ++i) {
    if (jal_ev_sequence(after.ev[i], core.sequence) == check.writer_sequence) return;
  }
  constexpr const char* kEngines[] = {"the scalar unit",        "the DMA", "the matrix engine", "the vector engine",
                                      "the collective network", "the NoC"};
  report(core, "race",
         fmt::format("{} is read before {} has written it; wait for that operation's ticket, or pass it as `after`",
                     what, kEngines[std::min<std::uint32_t>(check.writer_engine, 5)]));
}

}  // namespace

void check_source(CoreState& core, jal_tile tile, std::uint64_t bytes, const char* what, std::uint32_t engine,
                  jal_after after) {
  const TileCheck& check = core.checks[jal_tile_id(tile) - 1];
  const std::uint32_t bits = core.job->sanitize();
  if ((bits & JAL_SANITIZE_RACE) != 0) check_race(core, check, what, engine, after);
  if ((bits & JAL_SANITIZE_INIT) == 0) return;
  const auto begin = check.written.begin() + jal_tile_offset(tile);
  const auto end = begin + static_cast<std::ptrdiff_t>(bytes);
  const auto hole = std::find(begin, end, false);
  if (hole == end) return;
  report(core, "init",
         fmt::format("{}: byte {} of tile {} is read and was never written", what, hole - check.written.begin(),
                     jal_tile_id(tile)));
}

void own_again(CoreState& core, TileSlot& slot, bool keep) {
  const std::byte* old = slot.data;
  const bool is_bound = slot.binding() == Binding::hbm || slot.binding() == Binding::shared;
  if (is_bound && keep) std::memcpy(own_bytes(core, slot), old, slot.bytes);
  unbind(core, slot);
}

void check_guard(CoreState& core, const TileSlot& slot, std::uint32_t id) {
  const std::byte* guard = own_bytes(core, slot) + slot.bytes;
  for (std::uint32_t i = 0; i < kGuardBytes; ++i) {
    if (guard[i] == std::byte{kGuardValue}) continue;
    report(core, "memory",
           fmt::format("byte {} was written behind tile {}, which has {} bytes", slot.bytes + i, id, slot.bytes));
  }
}

}  // namespace jal::emu
