// Making and reading .jko modules (jal/abi/module.h).
#pragma once
#include <jal/abi/module.h>

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace jal::cc {

/// A module from a native shared object built with the kernel SDK. Throws Failure: no kernels, duplicate names, a
/// kernel whose symbol is missing, undefined symbols other than the C library's memory functions.
std::vector<std::uint8_t> make_module(std::span<const std::uint8_t> native);

/// FNV-1a 64 over the module with its checksum field taken as zero.
std::uint64_t module_checksum(std::span<const std::uint8_t> module);

/// What --list and --verify print: kernels with signatures, sections, build id. Throws Failure on anything that a
/// device would refuse.
std::string describe_module(std::span<const std::uint8_t> module);

}  // namespace jal::cc
