// One core during one job: what a kernel sees (jal_core) and what the chip keeps behind it.
//
// Invariant: only the worker that runs the core's fiber touches it, except `ready` hand-over fields written under the
// job's locks while the core is suspended. Times are picoseconds of device time, energies femtojoules.
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

struct TileSlot {
  std::uint32_t bytes = 0;
  std::uint32_t l1_offset = 0;
  Binding binding = Binding::empty;
  std::byte* data = nullptr;  // of the present binding
  SharedBuffer* shared = nullptr;
  // What prepare() left here, so that a GEMM never trusts an operand that something else wrote over. k = 0: no operand.
  std::uint32_t operand_activation = 0, operand_k = 0, operand_m = 0;
  // Sanitizer only: the last operation that wrote the tile, and which bytes were ever written.
  std::uint32_t writer_sequence = 0;
  std::uint32_t writer_engine = 0;
  bool is_writer_waited = true;
  std::vector<bool> written;
};

/// Engines of a core, as indices of busy-until times.
enum Engine : std::uint32_t { kDma, kMatrix, kVector, kCollective, kNoc, kEngines };

/// Why a core gave up its worker.
enum class Suspension : std::uint8_t { none, collective, receive, ended, dead };

struct CoreState : jal_core {
  Job* job = nullptr;
  Fiber* fiber = nullptr;
  std::uint64_t now_ps = 0;
  std::uint64_t free_ps[kEngines] = {};
  std::uint64_t end_ps = 0;  // latest completion of anything it issued
  std::uint32_t sequence = 0;
  std::uint32_t l1_used = 0;
  std::uint32_t bound_hbm = 0;  // tiles aliasing HBM
  std::vector<TileSlot> slots;
  std::uint32_t top = 0;  // slots in use
  Suspension suspension = Suspension::none;
  bool is_ended = false;
  // The blocking verb under way.
  const jal_coll_op* coll = nullptr;
  std::uint64_t arrival_ps = 0;
  std::uint64_t ready_ps = 0;  // completion of the collective or message
  SharedBuffer* delivered = nullptr;
  std::uint32_t recv_from = 0;
  std::uint32_t recv_bytes = 0;
  bool is_receiving = false;
  const jal_site* site = nullptr;  // of the verb under way
  std::uint64_t wait_begin_ps = 0;
  // Accounts.
  std::uint64_t busy_ps[JAL_UNIT_COUNT] = {};
  std::uint64_t energy_fj[JAL_UNIT_COUNT] = {};
  std::uint64_t bytes_local = 0, bytes_remote = 0, bytes_collective = 0, bytes_noc = 0;
  struct Wait {
    std::uint64_t begin_ps, end_ps;
  };
  std::vector<Wait> waits;  // only while somebody traces
};

}  // namespace jal::emu
