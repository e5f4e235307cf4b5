// Writes what kernels print and sanitizers report into the client's text ring (jal_text_ring, session.h).
//
// What it is not: formatted output. Invariant: of the ring only `head`, `dropped` and data between head and tail + size
// are written; `tail` is the client's, so it is copied, checked and then used. Threads: write() from any (a mutex
// orders them); set() while the device is not stepped.
#pragma once
#include <jal/abi/session.h>

#include <cstdint>
#include <jal/hal/board.hpp>
#include <mutex>
#include <string_view>

namespace jal::emu {

class TextPort {
 public:
  void set(std::uint32_t client, jal_text_ring* ring) { ring_[client] = ring; }

  /// One record. Text longer than a quarter of the ring is cut; without room the record is dropped and counted.
  void write(std::uint32_t client, std::uint32_t core, std::string_view text);

 private:
  std::mutex mutex_;
  jal_text_ring* ring_[hal::kMaxClients] = {};
};

}  // namespace jal::emu
