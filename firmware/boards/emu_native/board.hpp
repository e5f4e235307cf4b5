// The native board: the HAL's opaque board is one emulated device in this process.
//
// What it is not: a second device; it only carries the reference. Contract: the headers in
// firmware/hal/include/jal/hal.
#pragma once
#include <jal/hal/board.hpp>

#include "emulator/device/device.hpp"

struct jal::hal::Board {
  jal::emu::Device& device;
};
