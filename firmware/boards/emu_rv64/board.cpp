// Binds the HAL to memory-mapped registers. Contracts: firmware/hal/include/jal/hal; registers: registers.hpp.
#include "firmware/boards/emu_rv64/board.hpp"

#include <jal/abi/status.h>
#include <string.h>

#include <jal/hal/clock.hpp>
#include <jal/hal/cores.hpp>
#include <jal/hal/dma.hpp>
#include <jal/hal/fabric.hpp>
#include <jal/hal/memory.hpp>
#include <jal/hal/power.hpp>

namespace jal::hal {
namespace {

/// Writes a unit's command after everything it reads: what the firmware wrote to RAM, and the unit's other registers.
void start(volatile uint64_t& command, uint64_t value) {
  __atomic_thread_fence(__ATOMIC_SEQ_CST);
  command = value;
}

/// What has finished has also written RAM and its result registers.
int32_t finished(uint64_t status) {
  __atomic_thread_fence(__ATOMIC_SEQ_CST);
  return static_cast<int32_t>(status);
}

int32_t wait_for(const volatile uint64_t& status) {
  uint64_t now;
  while ((now = status) == rv64::kBusy) {
  }
  return finished(now);
}

template <uint32_t kWords, uint32_t kBytes>
void read_text(const volatile uint64_t (&from)[kWords], char (&to)[kBytes]) {
  static_assert(kWords * 8 == kBytes);
  for (uint32_t i = 0; i < kWords; ++i) {
    const uint64_t word = from[i];
    memcpy(to + 8 * i, &word, 8);
  }
  to[kBytes - 1] = '\0';
}

int32_t explain(Board& board, int32_t status, FaultReport& fault) {
  if (status == JAL_OK) return status;
  const volatile rv64::FaultRegisters& from = board.registers->fault;
  fault.status = status;
  fault.core = static_cast<uint32_t>(from.core);
  fault.line = static_cast<uint32_t>(from.line);
  fault.address = from.address;
  read_text(from.kernel, fault.kernel);
  read_text(from.file, fault.file);
  read_text(from.text, fault.text);
  return status;
}

/// Constant from reset (registers.hpp), so that a plain reference is as good as a load each time.
const rv64::Description& description(Board& board) {
  return *const_cast<const rv64::Description*>(&board.registers->description);
}

}  // namespace

const jal_chip_info& chip_info(Board& board) { return description(board).chip; }
const FirmwareCosts& firmware_costs(Board& board) { return description(board).costs; }
// A host's virtual address means nothing to this core.
uint64_t features(Board& board) { return board.registers->system.features & ~JAL_FEATURE_HOST_VA; }
void* client_region(Board& board, uint32_t client, uint64_t* out_bytes) {
  *out_bytes = client < kMaxClients ? board.registers->session.region_bytes[client] : 0;
  if (*out_bytes == 0 || *out_bytes > rv64::kClientStride) return nullptr;
  return reinterpret_cast<void*>(board.clients + client * rv64::kClientStride);
}
void* telemetry_page(Board& board) { return board.telemetry; }
void* log_ring(Board& board) { return board.log; }

uint64_t host_monotonic_ns(Board& board) { return board.registers->system.monotonic_ns; }
uint64_t host_unix_ns(Board& board) { return board.registers->system.unix_ns; }

int32_t code_load(Board& board, const void* module, uint64_t bytes, uint32_t* out_code, FaultReport& fault) {
  volatile rv64::CoresRegisters& cores = board.registers->cores;
  cores.module_address = reinterpret_cast<uint64_t>(module);
  cores.module_bytes = bytes;
  start(cores.command, rv64::kCoresLoad);
  const int32_t status = wait_for(cores.status);
  if (status == JAL_OK) *out_code = static_cast<uint32_t>(cores.loaded_code);
  return explain(board, status, fault);
}

void code_unload(Board& board, uint32_t code) {
  volatile rv64::CoresRegisters& cores = board.registers->cores;
  cores.code = code;
  start(cores.command, rv64::kCoresUnload);
  (void)wait_for(cores.status);
}

int32_t cores_start(Board& board, const CoreJob& job, CoreJobResult&) {
  volatile rv64::CoresRegisters& cores = board.registers->cores;
  cores.code = job.code;
  cores.kernel = job.kernel;
  cores.core_mask = job.core_mask;
  cores.arguments_address = reinterpret_cast<uint64_t>(job.arguments);
  cores.argument_bytes = job.argument_bytes;
  cores.client = job.client;
  cores.queue = job.queue;
  cores.tag = job.tag;
  cores.start_ps = job.start_ps;
  start(cores.command, rv64::kCoresStart);
  return kPending;
}

int32_t cores_poll(Board& board, CoreJobResult& out) {
  const volatile rv64::CoresRegisters& cores = board.registers->cores;
  const uint64_t status = cores.status;
  if (status == rv64::kBusy) return kPending;
  out.status = finished(status);
  out.end_ps = cores.end_ps;
  out.bytes_local = cores.bytes_local;
  out.bytes_remote = cores.bytes_remote;
  out.bytes_collective = cores.bytes_collective;
  out.bytes_noc = cores.bytes_noc;
  for (uint32_t unit = 0; unit < JAL_UNIT_COUNT; ++unit) {
    out.busy_ps[unit] = cores.busy_ps[unit];
    out.energy_fj[unit] = cores.energy_fj[unit];
  }
  return explain(board, out.status, out.fault);
}

int32_t dma_run(Board& board, const DmaRequest& request, DmaResult& out, FaultReport& fault) {
  volatile rv64::CopyRegisters& copy = board.registers->copy;
  copy.dst = request.dst;
  copy.src = request.src;
  copy.bytes = request.bytes;
  copy.slice_mask = request.slice_mask;
  copy.client = request.client;
  copy.fill = request.fill ? 1 : 0;
  copy.pattern = request.pattern;
  copy.queue = request.queue;
  copy.tag = request.tag;
  copy.start_ps = request.start_ps;
  start(copy.command, rv64::kCopyRun);
  const int32_t status = wait_for(copy.status);
  out.begin_ps = copy.begin_ps;
  out.end_ps = copy.end_ps;
  return explain(board, status, fault);
}

uint32_t fabric_ports(Board& board) { return static_cast<uint32_t>(board.registers->system.fabric_ports); }

int32_t memory_map(Board& board, const MapRequest& request, uint32_t* out_extent, FaultReport& fault) {
  volatile rv64::MemoryRegisters& memory = board.registers->memory;
  memory.slice_mask = request.slice_mask;
  memory.first_page = request.first_page;
  memory.pages = request.pages;
  memory.bytes_per_slice = request.bytes_per_slice;
  memory.client = request.client;
  start(memory.command, rv64::kMemoryMap);
  const int32_t status = wait_for(memory.status);
  if (status == JAL_OK) *out_extent = static_cast<uint32_t>(memory.mapped_extent);
  return explain(board, status, fault);
}

void memory_unmap(Board& board, uint32_t extent) {
  volatile rv64::MemoryRegisters& memory = board.registers->memory;
  memory.extent = extent;
  start(memory.command, rv64::kMemoryUnmap);
  (void)wait_for(memory.status);
}

void memory_budget(Board& board, uint64_t* out_limit, uint64_t* out_used) {
  *out_limit = board.registers->memory.budget_limit;
  *out_used = board.registers->memory.budget_used;
}

uint64_t unit_static_microwatts(Board& board, uint32_t unit) { return board.registers->meter.static_uw[unit]; }
uint32_t unit_state(Board& board, uint32_t unit) { return static_cast<uint32_t>(board.registers->meter.state[unit]); }
void meter_add_fj(Board& board, uint32_t unit, uint64_t energy_fj) { board.registers->meter.add_fj[unit] = energy_fj; }
void meter_advance_ps(Board& board, uint64_t dt_ps) { board.registers->meter.advance_ps = dt_ps; }
uint64_t meter_read_nj(Board& board, uint32_t unit) { return board.registers->meter.energy_nj[unit]; }

}  // namespace jal::hal
