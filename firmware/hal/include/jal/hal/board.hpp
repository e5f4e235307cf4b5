// What management firmware may ask of the chip, common part: the opaque board every unit's functions take.
//
// No implementation here: firmware/boards/emu_native binds these to the emulator, emu_rv64 to registers.
// Rules: freestanding C++20; nothing blocks; every address and size passed down has been checked by the caller, and the
// board checks its own limits again. A board belongs to one device and is used by one thread at a time (that of
// step()).
#pragma once
#include <jal/abi/address.h>
#include <jal/abi/session.h>
#include <stddef.h>
#include <stdint.h>

namespace jal::hal {

/// One device's hardware. Never a global: several devices live in one process.
struct Board;

/// The most clients a device serves at once.
inline constexpr uint32_t kMaxClients = 16;

/// Chip description from the model file; valid from reset.
const jal_chip_info& chip_info(Board&);

/// JAL_FEATURE_* that this board can offer.
uint64_t features(Board&);

/// The client region of an attached client slot, or nullptr. It stays mapped until the firmware has answered detach().
void* client_region(Board&, uint32_t client, uint64_t* out_bytes);

/// Telemetry page of this device and the log ring; always present.
void* telemetry_page(Board&);
void* log_ring(Board&);

/// Why a request failed, for the client's error record: filled by code_load, cores_poll, dma_run and memory_map. Texts
/// are NUL-terminated.
struct FaultReport {
  int32_t status = 0;
  uint32_t core = UINT32_MAX;
  uint32_t line = 0;
  uint64_t address = 0;
  char kernel[64] = {};
  char file[64] = {};
  char text[192] = {};
};

}  // namespace jal::hal
