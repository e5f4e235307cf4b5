// Cores: code loading and kernel jobs.
#pragma once
#include <jal/abi/module.h>

#include <jal/hal/board.hpp>

namespace jal::hal {

/// Makes the code of a validated module (header, kernel table and sections were checked by the firmware, `bytes` were
/// copied to firmware memory or are immutable host memory for the call) runnable. *out_code names it. Errors:
/// MODULE_ARCH, MODULE_LOAD.
int32_t code_load(Board&, const void* module, uint64_t bytes, uint32_t* out_code, FaultReport& fault);
void code_unload(Board&, uint32_t code);

/// A tensor argument's bytes in each slice of its mask: what DMA of this job is checked against (kernels may also use
/// any page their client owns through address arguments, checked per page).
struct CoreJob {
  uint32_t code = 0, kernel = 0;  ///< kernel index in the module's table
  const jal_kernel_entry* entry = nullptr;
  uint64_t core_mask = 0;
  const void* arguments =
      nullptr;  ///< firmware's own checked copy, 16-byte aligned, alive until the job is polled as done
  uint32_t argument_bytes = 0;
  uint32_t client = 0, queue = 0;
  uint64_t tag = 0;
  uint64_t start_ps = 0;  ///< device time at which the cores start
};

struct CoreJobResult {
  int32_t status = 0;
  uint64_t end_ps = 0;  ///< latest core, after contention correction
  uint64_t bytes_local = 0, bytes_remote = 0, bytes_collective = 0, bytes_noc = 0;
  uint64_t busy_ps[JAL_UNIT_COUNT] = {};    ///< summed over cores
  uint64_t energy_fj[JAL_UNIT_COUNT] = {};  ///< dynamic energy, femtojoules
  FaultReport fault;
};

/// Runs the job. In the native emulator it is complete on return (the calling thread is worker 0, other workers help);
/// a board with real cores returns kPending and is polled.
inline constexpr int32_t kPending = -1;
int32_t cores_start(Board&, const CoreJob&, CoreJobResult& out);
int32_t cores_poll(Board&, CoreJobResult& out);

}  // namespace jal::hal
