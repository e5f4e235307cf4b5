// The keys of a chip's model file: name, unit, range, and the field of Model each one fills.
//
// What it is not: values. Those stand in emulator/model/*.toml. Invariant: every field of Model that is charged has one
// key here, and a file has exactly these keys (emulator/model/README.md).
#pragma once
#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "emulator/model/model.hpp"

namespace jal::emu {

/// One key. The field takes value * scale, which must be whole for integer fields.
struct ModelKey {
  std::string name;  // dotted
  std::string unit;  // the only unit the file may write
  double low, high;  // inclusive, in that unit
  double scale;
  std::variant<std::uint32_t Model::*, std::uint64_t Model::*, double Model::*> field;
};

/// A unit's power in one state: watts when on, a share of that otherwise.
struct StaticKey {
  std::string name;
  std::uint32_t unit, state;
};

const std::vector<ModelKey>& model_keys();
const std::vector<StaticKey>& static_keys();

}  // namespace jal::emu
