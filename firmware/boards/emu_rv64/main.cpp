// The management core's program: boots the firmware, then answers the device's requests and steps until it sleeps.
//
// What it is not: an interrupt handler; nothing here is re-entered. crt0.S calls jal_main with interrupts disabled, and
// jal_trap for anything that should not have happened.
#include <stdint.h>

#include <new>

#include "firmware/boards/emu_rv64/board.hpp"
#include "firmware/control/control.hpp"

namespace {

using jal::fw::Control;
using jal::fw::StepResult;

// Megabytes of tables that are touched as they are used. Reset leaves RAM zeroed, so crt0 does not clear them again.
alignas(Control) __attribute__((section(".reset_zero"))) uint8_t control_storage[sizeof(Control)];

volatile jal::rv64::Registers& registers() {
  return *reinterpret_cast<volatile jal::rv64::Registers*>(jal::rv64::kRegistersAddress);
}

/// True if there was a request. At most one is open at a time: the device waits for `answered`.
bool serve_session(Control& control, uint64_t& answered) {
  volatile jal::rv64::SessionRegisters& session = registers().session;
  const uint64_t sequence = session.sequence;
  if (sequence == answered) return false;
  __atomic_thread_fence(__ATOMIC_SEQ_CST);
  const uint32_t client = static_cast<uint32_t>(session.client);
  int32_t status = JAL_ERROR_UNIMPLEMENTED;
  if (session.operation == jal::rv64::kSessionAttach) {
    status = control.attach(client);
  } else if (session.operation == jal::rv64::kSessionDetach) {
    control.detach(client);
    status = JAL_OK;
  }
  session.status = static_cast<uint64_t>(static_cast<int64_t>(status));
  __atomic_thread_fence(__ATOMIC_SEQ_CST);
  session.answered = answered = sequence;
  return true;
}

[[noreturn]] void stop() {
  for (;;) __asm__ volatile("wfi");
}

}  // namespace

extern "C" [[noreturn]] void jal_trap(uint64_t cause, uint64_t pc, uint64_t value) {
  volatile jal::rv64::SystemRegisters& system = registers().system;
  system.trap_pc = pc;
  system.trap_value = value;
  system.trap_cause = cause + 1;
  stop();
}

extern "C" [[noreturn]] void jal_main() {
  volatile jal::rv64::SystemRegisters& system = registers().system;
  // An image on another device's registers would write into whatever lies there.
  if (system.identity != jal::rv64::kIdentity || system.version != jal::rv64::kVersion) stop();
  jal::hal::Board board = {&registers(), reinterpret_cast<void*>(jal::rv64::kTelemetryAddress),
                           reinterpret_cast<void*>(jal::rv64::kLogAddress), jal::rv64::kClientsAddress};
  Control& control = *new (control_storage) Control(board);
  control.boot();
  uint64_t answered = 0;
  for (;;) {
    // Cleared before the work: whoever rings from here on finds the interrupt pending, and wfi returns at once.
    (void)system.doorbell;
    const bool served = serve_session(control, answered);
    const StepResult result = control.step();
    system.step_result = static_cast<uint64_t>(result);
    if (!served && result != StepResult::worked) __asm__ volatile("wfi");
  }
}
