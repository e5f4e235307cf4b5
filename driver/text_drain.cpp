// Contract: text_drain.hpp.
#include "driver/text_drain.hpp"

#include <algorithm>
#include <cstdio>
#include <cstring>

namespace jal::drv {
namespace {

constexpr std::uint64_t kHeaderBytes = 8;

void take(const jal_text_ring& ring, std::uint64_t at, void* to, std::uint64_t bytes) {
  const std::uint64_t start = at % JAL_TEXT_RING_BYTES;
  const std::uint64_t first = std::min<std::uint64_t>(bytes, JAL_TEXT_RING_BYTES - start);
  std::memcpy(to, ring.data + start, first);
  std::memcpy(static_cast<char*>(to) + first, ring.data, bytes - first);
}

}  // namespace

void TextDrain::drain() {
  const std::unique_lock lock(mutex_, std::try_to_lock);
  if (!lock.owns_lock()) return;
  std::uint64_t tail = std::atomic_ref(ring_.tail).load(std::memory_order_relaxed);
  // Pairs with the device's release of head: the records before it are whole.
  const std::uint64_t head = std::atomic_ref(ring_.head).load(std::memory_order_acquire);
  while (tail != head) {
    std::uint32_t header[2] = {};
    const std::uint64_t held = head - tail;
    if (held < kHeaderBytes || held > JAL_TEXT_RING_BYTES) break;
    take(ring_, tail, header, sizeof header);
    const std::uint64_t padded = kHeaderBytes + (std::uint64_t{header[0]} + 7) / 8 * 8;
    if (padded > held) break;
    text_.resize(header[0]);
    take(ring_, tail + kHeaderBytes, text_.data(), header[0]);
    tail += padded;
    // Pairs with the device's acquire of tail: these bytes may be overwritten.
    std::atomic_ref(ring_.tail).store(tail, std::memory_order_release);
    deliver(header[1], text_);
  }
  std::atomic_ref(ring_.tail).store(head, std::memory_order_release);
  const std::uint64_t dropped = std::atomic_ref(ring_.dropped).load(std::memory_order_relaxed);
  if (dropped != dropped_told_) {
    const std::string words = std::to_string(dropped - dropped_told_) + " records of text found no room and were lost";
    dropped_told_ = dropped;
    deliver(UINT32_MAX, words);
  }
}

void TextDrain::deliver(std::uint32_t core, const std::string& text) const {
  if (sink_) return sink_(core, text.data(), text.size());
  // One write a record, so that lines of several threads and processes stay whole; its own newline is not doubled.
  std::string line =
      "device " + std::to_string(device_) + (core == UINT32_MAX ? "" : " core " + std::to_string(core)) + ": ";
  line += text;
  if (line.back() != '\n') line += '\n';
  (void)std::fwrite(line.data(), 1, line.size(), stderr);
}

void TextDrain::set_sink(Sink sink) {
  const std::lock_guard lock(mutex_);
  sink_ = std::move(sink);
}

}  // namespace jal::drv
