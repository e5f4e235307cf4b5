// Everything the engines compute: matrix, attention, vector, formats. Only re-includes.
#pragma once
#include "emulator/engines/attention.hpp"
#include "emulator/engines/bracket.hpp"
#include "emulator/engines/isa.hpp"
#include "emulator/engines/matrix.hpp"
#include "emulator/engines/quantize.hpp"
#include "emulator/engines/vector.hpp"
#include "emulator/engines/weights.hpp"
