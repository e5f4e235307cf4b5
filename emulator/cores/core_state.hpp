// One core during one job: what a kernel sees (jal_core) and what the chip keeps behind it.
//
// Layout is speed: 64 cores take turns on a worker while weights stream through its caches, so each line that a turn
// touches is a miss. What every verb needs lies together, tiles take half a line each, and the sanitizers' books are
// kept apart. Invariant: only the worker that runs the core's fiber touches it, except `ready` hand-over fields written
// under the job's locks while the core is suspended. Times are picoseconds of device time, energies femtojoules.
#pragma once
#include <jal/abi/power.h>
#include <jal/kernel/core_abi.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "emulator/cores/fiber.hpp"
#include "emulator/cores/shared_buffer.hpp"

namespace jal::emu {

class Job;

/// Where a tile's bytes are. own: in the core's L1. hbm: aliased in the core's or another slice, read-only. shared: a
/// collective's result.
enum class Binding : std::uint8_t { empty, own, hbm, shared };

struct alignas(32) TileSlot {
  std::byte* data = nullptr;  // of the present binding
  SharedBuffer* shared = nullptr;
  std::uint32_t bytes = 0;
  // What prepare() left here, so that a GEMM never trusts an operand that something else wrote over. k = 0: no operand.
  std::uint32_t operand_k = 0, operand_m = 0;

  Binding binding() const { return static_cast<Binding>(packed_ & 3); }
  std::uint32_t operand_activation() const { return packed_ >> 2 & 0xff; }
  /// Offset in L1 in units of 64 bytes, below 2^22.
  std::uint32_t l1_line() const { return packed_ >> 10; }
  void set_binding(Binding binding) { packed_ = (packed_ & ~3u) | static_cast<std::uint32_t>(binding); }
  void set_operand_activation(std::uint32_t dtype) { packed_ = (packed_ & ~0x3fcu) | (dtype & 0xff) << 2; }
  /// An empty tile of `size` bytes at `line`.
  void open(std::uint32_t size, std::uint32_t line) {
    data = nullptr;
    shared = nullptr;
    bytes = size;
    operand_k = 0;
    packed_ = line << 10;
  }

 private:
  /// Read and written whole: a bit field's narrow store followed by a wide load waits until every store before it has
  /// reached the cache, which cost a fifth of the emulator's time when another CPU had the lines.
  std::uint32_t packed_ = 0;
};
static_assert(sizeof(TileSlot) == 32);

/// What the sanitizers know of a tile: the last operation that wrote it, and which bytes were ever written.
struct TileCheck {
  std::uint32_t writer_sequence = 0;
  std::uint32_t writer_engine = 0;
  bool is_writer_waited = true;
  std::vector<bool> written;
};

/// Engines of a core, as indices of busy-until times.
enum Engine : std::uint32_t { kDma, kMatrix, kVector, kCollective, kNoc, kEngines };

/// Why a core gave up its worker.
enum class Suspension : std::uint8_t { none, collective, receive, ended, dead };

struct CoreState;

/// What one worker keeps while it runs cores.
struct alignas(64) WorkerState {
  std::uint32_t index = 0;
  /// The core that runs next here; nobody else touches it meanwhile. nullptr: not known.
  const CoreState* ahead = nullptr;
  DropList drops;
};

/// What a complete collective tells its members. Valid until the group's next one is complete.
struct CollectiveResult {
  std::uint64_t arrived = 0;     // members that wait; none once it is complete
  SharedBuffer* data = nullptr;  // one reference for each member with a result; nullptr: none
  std::uint64_t end_ps = 0;
  std::uint64_t occupied_ps = 0;
};

struct alignas(64) CoreState : jal_core {
  // What every verb touches.
  Job* job = nullptr;
  WorkerState* worker = nullptr;  // that runs it now
  std::byte* l1 = nullptr;        // its fiber's
  std::uint64_t now_ps = 0;
  std::uint64_t start_ps = 0;       // of the dispatch: tickets count from here
  std::uint64_t verb_issue_ps = 0;  // of the model
  std::uint64_t verbs_issued = 0;
  const jal_site* site = nullptr;  // of the verb under way
  std::vector<TileSlot> slots;
  /// The grant that it last used; nothing is unmapped while a job runs.
  struct {
    std::uint64_t address = 0, bytes = 0;
    std::byte* data = nullptr;
  } grant;
  std::uint32_t top = 0;  // slots in use
  std::uint32_t l1_used = 0;
  std::uint64_t free_ps[kEngines] = {};
  std::uint64_t end_ps = 0;  // latest completion of anything it issued
  std::uint32_t sequence = 0;
  std::uint32_t bound_hbm = 0;  // tiles aliasing HBM
  /// A verb is under way: the emulator's own code, possibly with a lock. For signal handlers.
  volatile bool is_in_verb = false;
  Suspension suspension = Suspension::none;
  bool is_ended = false;
  bool is_receiving = false;
  std::uint32_t recv_from = 0;
  std::uint32_t recv_bytes = 0;
  // The blocking verb under way.
  Fiber* fiber = nullptr;
  const std::byte* stack_top = nullptr;  // of the suspended fiber
  const jal_coll_op* coll = nullptr;
  const CollectiveResult* collective = nullptr;
  bool takes_result = false;
  const SharedBuffer* stage = nullptr;  // where its part of the collective lies already
  std::uint64_t arrival_ps = 0;
  std::uint64_t ready_ps = 0;         // arrival of the message
  SharedBuffer* delivered = nullptr;  // the message
  // Accounts.
  std::uint64_t busy_ps[JAL_UNIT_COUNT] = {};
  std::uint64_t energy_fj[JAL_UNIT_COUNT] = {};
  std::uint64_t bytes_local = 0, bytes_remote = 0, bytes_collective = 0, bytes_noc = 0;
  struct Wait {
    std::uint64_t begin_ps, end_ps;
  };
  std::vector<Wait> waits;        // only while somebody traces
  std::vector<TileCheck> checks;  // by slot, only under a sanitizer
};

}  // namespace jal::emu
