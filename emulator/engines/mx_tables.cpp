// The tables, computed when this file is compiled.
#include "emulator/engines/mx_tables.hpp"

namespace jal::emu {
namespace {

constexpr MxTables make_tables() {
  MxTables t{};
  for (std::uint32_t e = 0; e < 256; ++e) {
    for (std::uint32_t code = 0; code < 16; ++code) {
      const std::uint16_t value = mx_bf16(kE2m1Ninths[code & 7u], code >= 8, e);
      t.e2m1_bytes[e][code] = static_cast<std::uint8_t>(value & 0xffu);
      t.e2m1_bytes[e][16 + code] = static_cast<std::uint8_t>(value >> 8);
      t.e2m1_words[e][code] = t.e2m1_words[e][16 + code] = value;
    }
    for (std::uint32_t m = 0; m < 8; ++m) {
      t.e4m3_small[e][m] = static_cast<std::uint16_t>(mx_bf16(e4m3_ninths(m), false, e) - (m << 4));
    }
    const std::uint32_t bias = (mx_bf16(e4m3_ninths(0x38), false, e) - (0x38u << 4)) & 0xffffu;
    t.e4m3_bias[e] = bias << 16 | bias;
    t.e4m3_factor[e] = e <= kMaxQuickScale ? (e + 112) << 23 : 0x7fc00000u;
    t.factor[e] = e == 255 ? 0x7fc00000u : e << 23;
  }
  return t;
}

}  // namespace

constexpr MxTables kMxTables = make_tables();

}  // namespace jal::emu
