// Is this file the one the repository knows? SHA-256 of a whole file against known_models.inc.
//
// What it is not: a signature; an unknown model is legal, there is just nothing to compare it with.
// Invariant: a file that carries a known model's name or its exact size either has its SHA-256 or is refused.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "samples/01_llm/gguf_error.hpp"

namespace jal::llm {

using Sha256 = std::array<std::uint8_t, 32>;

/// SHA-256 (FIPS 180-4) by libcrypto: 1.1 GB/s with the processor's SHA instructions, 0.33 GB/s without.
Sha256 sha256(std::span<const std::uint8_t> bytes);
std::string hex(const Sha256& hash);

struct KnownModel {
  std::string_view file_name;
  std::uint64_t size_bytes;
  std::string_view sha256_hex;
};
std::span<const KnownModel> known_models();

/// Hashes the file and compares. `path` names the file (its last component is compared, and messages show it). Returns
/// the hash, with *out_known (may be null) set to the model or nullptr. Throws GgufError: truncated (a known name,
/// fewer bytes), corrupt.
Sha256 verify_known_model(std::string_view path, std::span<const std::uint8_t> bytes, const KnownModel** out_known);

}  // namespace jal::llm
