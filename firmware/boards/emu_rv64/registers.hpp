// The memory-mapped registers of the management core: the contract between this board and whoever emulates or builds
// it.
//
// What it is not: the host's contract (that is firmware/abi), nor code. README.md has the memory map and the protocol
// of commands. Rules: every register is one naturally aligned 64-bit word; (r) is written by the device only, (w) by
// the firmware only; reserved words read zero and are written by nobody; a change of offset is a new kVersion.
#pragma once
#include <jal/abi/address.h>
#include <jal/abi/log.h>
#include <jal/abi/power.h>
#include <jal/abi/session.h>
#include <jal/abi/telemetry.h>
#include <stddef.h>
#include <stdint.h>

#include <jal/hal/board.hpp>
#include <jal/hal/clock.hpp>

namespace jal::rv64 {

inline constexpr uint64_t kIdentity = 0x3456525f4c414aull;  // "JAL_RV4", little endian
inline constexpr uint64_t kVersion = 1;

// Physical addresses. RAM, where the image lies, is in control.ld.
inline constexpr uint64_t kRegistersAddress = 0x10000000;
inline constexpr uint64_t kTelemetryAddress = 0x10010000;  // jal_telemetry_page
inline constexpr uint64_t kLogAddress = 0x10020000;        // jal_log_ring
inline constexpr uint64_t kClientsAddress = 0x4000000000;  // client c's region at c << 32 from here
inline constexpr uint64_t kClientStride = 1ull << 32;

// A unit starts when its `command` is written; `status` reads kBusy until it has finished, then a jal_status_t,
// sign-extended. The fault window describes the failure. No status is 1.
inline constexpr uint64_t kBusy = 1;

/// Identity, clocks, wake-up.
struct SystemRegisters {
  uint64_t identity;      // (r) kIdentity
  uint64_t version;       // (r) kVersion
  uint64_t features;      // (r) JAL_FEATURE_*
  uint64_t doorbell;      // (r) 1 if anybody rang since it was read last; reading clears it. Set: external interrupt
                          // pending
  uint64_t monotonic_ns;  // (r) host clock
  uint64_t unix_ns;       // (r) host clock
  uint64_t fabric_ports;  // (r)
  uint64_t step_result;   // (w) jal::fw::StepResult of the last step
  uint64_t trap_pc;       // (w) of the trap that stopped the core
  uint64_t trap_value;    // (w) mtval
  uint64_t trap_cause;    // (w) mcause + 1, written last; 0: the firmware runs
  uint64_t reserved[5];
};

inline constexpr uint64_t kSessionAttach = 1;
inline constexpr uint64_t kSessionDetach = 2;

/// Who comes and goes: asked by the device, answered by the firmware. The device rings the doorbell after `sequence`.
struct SessionRegisters {
  uint64_t sequence;   // (r) number of the newest request, written last; 0: none yet
  uint64_t operation;  // (r) kSession*
  uint64_t client;     // (r) slot
  uint64_t status;     // (w) jal_status_t
  uint64_t answered;   // (w) = sequence once answered, written last; only then the region may be unmapped
  uint64_t reserved[3];
  uint64_t region_bytes[hal::kMaxClients];  // (r) size of the mapped client region, 0 = none
};

inline constexpr uint64_t kMemoryMap = 1;
inline constexpr uint64_t kMemoryUnmap = 2;

/// Page tables of HBM.
struct MemoryRegisters {
  uint64_t slice_mask, first_page, pages, bytes_per_slice, client;  // (w) as hal::MapRequest
  uint64_t extent;                                                  // (w) to unmap
  uint64_t command;                                                 // (w) kMemory*
  uint64_t status;                                                  // (r)
  uint64_t mapped_extent;                                           // (r) result of map
  uint64_t budget_limit, budget_used;                               // (r) bytes
  uint64_t reserved[5];
};

inline constexpr uint64_t kCopyRun = 1;

/// The copy engine.
struct CopyRegisters {
  uint64_t dst, src, bytes, slice_mask, client, fill, pattern, queue, tag, start_ps;  // (w) as hal::DmaRequest
  uint64_t command;                                                                   // (w) kCopyRun
  uint64_t status;                                                                    // (r)
  uint64_t begin_ps, end_ps;                                                          // (r)
  uint64_t reserved[2];
};

inline constexpr uint64_t kCoresLoad = 1;
inline constexpr uint64_t kCoresUnload = 2;
inline constexpr uint64_t kCoresStart = 3;

/// Code and jobs of the kernel cores. One job at a time.
struct CoresRegisters {
  uint64_t module_address, module_bytes;  // (w) to load: in the firmware's address space
  uint64_t code;                          // (w) to unload and to start
  uint64_t kernel, core_mask, arguments_address, argument_bytes, client, queue, tag, start_ps;  // (w) as hal::CoreJob
  uint64_t command;                                                                             // (w) kCores*
  uint64_t status;                                                                              // (r)
  uint64_t loaded_code;                                                                         // (r) result of load
  uint64_t end_ps, bytes_local, bytes_remote, bytes_collective, bytes_noc;  // (r) as hal::CoreJobResult
  uint64_t busy_ps[JAL_UNIT_COUNT];                                         // (r)
  uint64_t energy_fj[JAL_UNIT_COUNT];                                       // (r)
  uint64_t reserved[27];
};

/// Energy meters. A write takes effect before the next read.
struct MeterRegisters {
  uint64_t advance_ps;  // (w) lets time pass
  uint64_t reserved[7];
  uint64_t static_uw[JAL_UNIT_COUNT], state[JAL_UNIT_COUNT], energy_nj[JAL_UNIT_COUNT];  // (r)
  uint64_t add_fj[JAL_UNIT_COUNT];                                                       // (w) adds dynamic energy
  uint64_t reserved1[20];
};

/// Why the last command of any unit failed. (r)
struct FaultRegisters {
  uint64_t core, line, address;
  uint64_t reserved;
  uint64_t kernel[8], file[8], text[24];  // NUL-terminated
  uint64_t reserved1[20];
};

/// What the chip is: constant from reset, so it is read as plain memory. (r)
struct Description {
  jal_chip_info chip;
  hal::FirmwareCosts costs;
  uint64_t reserved[36];
};

struct Registers {
  SystemRegisters system;
  SessionRegisters session;
  MemoryRegisters memory;
  CopyRegisters copy;
  CoresRegisters cores;
  MeterRegisters meter;
  FaultRegisters fault;
  Description description;
};

static_assert(sizeof(SystemRegisters) == 0x80 && offsetof(Registers, system) == 0x000);
static_assert(sizeof(SessionRegisters) == 0xc0 && offsetof(Registers, session) == 0x080);
static_assert(sizeof(MemoryRegisters) == 0x80 && offsetof(Registers, memory) == 0x140);
static_assert(sizeof(CopyRegisters) == 0x80 && offsetof(Registers, copy) == 0x1c0);
static_assert(sizeof(CoresRegisters) == 0x200 && offsetof(Registers, cores) == 0x240);
static_assert(sizeof(MeterRegisters) == 0x200 && offsetof(Registers, meter) == 0x440);
static_assert(sizeof(FaultRegisters) == 0x200 && offsetof(Registers, fault) == 0x640);
static_assert(sizeof(Description) == 0x200 && offsetof(Registers, description) == 0x840);
static_assert(sizeof(Registers) <= kTelemetryAddress - kRegistersAddress);
static_assert(sizeof(jal_telemetry_page) <= kLogAddress - kTelemetryAddress);
static_assert(sizeof(hal::FaultReport::kernel) == sizeof(FaultRegisters::kernel));
static_assert(sizeof(hal::FaultReport::file) == sizeof(FaultRegisters::file));
static_assert(sizeof(hal::FaultReport::text) == sizeof(FaultRegisters::text));

}  // namespace jal::rv64
