// Modelled time and energy from the model's real-valued figures, in integers: the same on every host and in any order.
#pragma once
#include <cstdint>

namespace jal::emu {

__extension__ using Wide = unsigned __int128;

/// Picoseconds that `amount` (bytes, operations) takes at `per_second`, rounded up. per_second >= 1.
inline std::uint64_t picoseconds(std::uint64_t amount, double per_second) {
  const auto rate = static_cast<std::uint64_t>(per_second);
  // The same value in 64 bits, whose division is ten times faster.
  if (amount <= 9'000'000 && rate <= 9'000'000'000'000'000'000u) {
    return (amount * 1'000'000'000'000u + rate - 1) / rate;
  }
  return static_cast<std::uint64_t>((Wide{amount} * 1'000'000'000'000u + rate - 1) / rate);
}

/// Femtojoules of `amount` at `fj_each`, rounded down after the product; fj_each counts to a thousandth.
inline std::uint64_t femtojoules(std::uint64_t amount, double fj_each) {
  const auto milli =
      static_cast<std::uint64_t>(fj_each * 1000 + 0.5);  // llround is a call, and this is on every verb's path
  const Wide product = Wide{amount} * milli;
  if (product <= UINT64_MAX) return static_cast<std::uint64_t>(product) / 1000;
  return static_cast<std::uint64_t>(product / 1000);
}

}  // namespace jal::emu
