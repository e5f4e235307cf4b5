// Contract: text_port.hpp and session.h.
#include "emulator/device/text_port.hpp"

#include <algorithm>
#include <atomic>
#include <cstring>

namespace jal::emu {
namespace {

constexpr std::uint64_t kHeaderBytes = 8;

void put(jal_text_ring& ring, std::uint64_t at, const void* from, std::uint64_t bytes) {
  const std::uint64_t start = at % JAL_TEXT_RING_BYTES,
                      first = std::min<std::uint64_t>(bytes, JAL_TEXT_RING_BYTES - start);
  std::memcpy(ring.data + start, from, first);
  std::memcpy(ring.data, static_cast<const char*>(from) + first, bytes - first);
}

}  // namespace

void TextPort::write(std::uint32_t client, std::uint32_t core, std::string_view text) {
  const std::lock_guard lock(mutex_);
  jal_text_ring* ring = client < hal::kMaxClients ? ring_[client] : nullptr;
  if (ring == nullptr || text.empty()) return;
  text = text.substr(0, JAL_TEXT_RING_BYTES / 4);
  const std::uint64_t padded = kHeaderBytes + (text.size() + 7) / 8 * 8;
  const std::uint64_t head = ring->head;
  // Pairs with the client's release of tail: what it read may be overwritten.
  const std::uint64_t tail = std::atomic_ref(ring->tail).load(std::memory_order_acquire);
  const std::uint64_t held = head - tail;
  if (held > JAL_TEXT_RING_BYTES || padded > JAL_TEXT_RING_BYTES - held) {  // the first: a tail that is not one
    std::atomic_ref(ring->dropped).fetch_add(1, std::memory_order_relaxed);
    return;
  }
  const std::uint32_t header[2] = {static_cast<std::uint32_t>(text.size()), core};
  put(*ring, head, header, sizeof header);
  put(*ring, head + kHeaderBytes, text.data(), text.size());
  // Pairs with the client's acquire of head.
  std::atomic_ref(ring->head).store(head + padded, std::memory_order_release);
}

}  // namespace jal::emu
