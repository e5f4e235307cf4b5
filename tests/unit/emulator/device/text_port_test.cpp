// The text ring: records arrive whole and in order, a full ring drops and counts, a hostile tail harms nothing.
#include "emulator/device/text_port.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <string>
#include <vector>

namespace jal::emu {
namespace {

class TextPortTest : public ::testing::Test {
 protected:
  TextPortTest() { port.set(2, ring.get()); }

  /// What a client does: reads one record and gives its bytes back.
  std::string read() {
    if (ring->tail == ring->head) return "";
    const auto byte = [&](std::uint64_t at) { return ring->data[(ring->tail + at) % JAL_TEXT_RING_BYTES]; };
    std::uint32_t header[2];
    for (std::uint64_t i = 0; i < 8; ++i) reinterpret_cast<unsigned char*>(header)[i] = byte(i);
    std::string text = std::to_string(header[1]) + ":";
    for (std::uint32_t i = 0; i < header[0]; ++i) text += static_cast<char>(byte(8 + i));
    ring->tail += 8 + (header[0] + 7) / 8 * 8;
    return text;
  }

  std::unique_ptr<jal_text_ring> ring = std::make_unique<jal_text_ring>();
  TextPort port;
};

TEST_F(TextPortTest, RecordsArriveInOrderAcrossTheEnd) {
  for (int i = 0; i < 20000; ++i) {
    const std::string text(static_cast<std::size_t>(1 + i % 37), static_cast<char>('a' + i % 26));
    port.write(2, static_cast<std::uint32_t>(i % 64), text);
    ASSERT_EQ(read(), std::to_string(i % 64) + ":" + text);
  }
  EXPECT_GT(ring->head, 2u * JAL_TEXT_RING_BYTES);
  EXPECT_EQ(ring->dropped, 0u);
}

TEST_F(TextPortTest, FullRingDropsAndCounts) {
  const std::string text(1000, 'x');
  for (int i = 0; i < 100; ++i) port.write(2, 0, text);
  EXPECT_EQ(ring->dropped, 100 - JAL_TEXT_RING_BYTES / 1008);
  EXPECT_LE(ring->head - ring->tail, JAL_TEXT_RING_BYTES);
  read();
  port.write(2, 7, "next");
  while (ring->tail + 16 < ring->head) read();
  EXPECT_EQ(read(), "7:next");
}

TEST_F(TextPortTest, LongTextIsCut) {
  port.write(2, 0, std::string(JAL_TEXT_RING_BYTES * 2, 'y'));
  EXPECT_EQ(read().size(), 2 + JAL_TEXT_RING_BYTES / 4);
}

TEST_F(TextPortTest, HostileTailIsNotBelieved) {
  ring->tail = 12345;  // ahead of head
  port.write(2, 0, "text");
  EXPECT_EQ(ring->head, 0u);
  EXPECT_EQ(ring->dropped, 1u);
}

TEST_F(TextPortTest, DetachedClientsTextGoesNowhere) {
  port.set(2, nullptr);
  port.write(2, 0, "text");
  port.write(99, 0, "text");
  EXPECT_EQ(ring->head, 0u);
}

}  // namespace
}  // namespace jal::emu
