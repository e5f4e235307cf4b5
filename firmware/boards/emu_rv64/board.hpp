// The RV64 board: the HAL's opaque board is a block of registers.
//
// Addresses are members, so that a test can put the block into plain memory.
#pragma once
#include <stdint.h>

#include <jal/hal/board.hpp>

#include "firmware/boards/emu_rv64/registers.hpp"

struct jal::hal::Board {
  volatile jal::rv64::Registers* registers;
  void* telemetry;
  void* log;
  uint64_t clients;  // address of client 0's region
};
