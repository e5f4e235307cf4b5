// The text ring, written by hand as a device does and as a hostile one might.
#include "driver/text_drain.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <string>
#include <vector>

namespace jal::drv {
namespace {

struct TextDrainTest : testing::Test {
  std::unique_ptr<jal_text_ring> ring = std::make_unique<jal_text_ring>();
  TextDrain drain{*ring, 5};
  std::vector<std::string> lines;

  void SetUp() override {
    drain.set_sink([this](std::uint32_t core, const char* text, std::uint64_t bytes) {
      lines.push_back(std::to_string(core) + ":" + std::string(text, bytes));
    });
  }
  void put(const void* from, std::uint64_t bytes) {
    for (std::uint64_t i = 0; i < bytes; ++i) {
      ring->data[(ring->head + i) % JAL_TEXT_RING_BYTES] = static_cast<const std::uint8_t*>(from)[i];
    }
    ring->head += bytes;
  }
  void write(std::uint32_t core, std::string text) {
    const std::uint32_t header[2] = {static_cast<std::uint32_t>(text.size()), core};
    put(header, sizeof header);
    text.resize((text.size() + 7) / 8 * 8);
    put(text.data(), text.size());
  }
};

TEST_F(TextDrainTest, RecordsComeOutWholeAndInOrder) {
  write(0, "hello");
  write(3, std::string(100, 'x'));
  EXPECT_TRUE(drain.has_text());
  drain.drain();
  EXPECT_FALSE(drain.has_text());
  EXPECT_EQ(lines, (std::vector<std::string>{"0:hello", "3:" + std::string(100, 'x')}));
}

TEST_F(TextDrainTest, RecordsCrossTheEndOfTheRing) {
  ring->head = ring->tail = 10 * JAL_TEXT_RING_BYTES - 16;
  write(1, "a text that does not fit into what is left");
  drain.drain();
  EXPECT_EQ(lines, (std::vector<std::string>{"1:a text that does not fit into what is left"}));
}

TEST_F(TextDrainTest, DroppedRecordsAreToldOnce) {
  ring->dropped = 4;
  write(1, "x");
  drain.drain();
  write(1, "y");
  drain.drain();
  ASSERT_EQ(lines.size(), 3u);
  EXPECT_EQ(lines[1], "4294967295:4 records of text found no room and were lost");
}

TEST_F(TextDrainTest, LengthBeyondTheRingIsSkippedNotFollowed) {
  const std::uint32_t header[2] = {0x7fffffff, 0};
  put(header, sizeof header);
  drain.drain();
  EXPECT_TRUE(lines.empty());
  EXPECT_FALSE(drain.has_text());
  write(2, "still alive");
  drain.drain();
  EXPECT_EQ(lines, (std::vector<std::string>{"2:still alive"}));
}

TEST_F(TextDrainTest, HeadFarAheadIsSkippedNotFollowed) {
  ring->head = 1ull << 60;
  drain.drain();
  EXPECT_TRUE(lines.empty());
  EXPECT_EQ(ring->tail, 1ull << 60);
}

TEST_F(TextDrainTest, WithoutASinkLinesGoToStandardError) {
  drain.set_sink({});
  write(3, "printed\n");
  write(UINT32_MAX, "said");
  testing::internal::CaptureStderr();
  drain.drain();
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "device 5 core 3: printed\ndevice 5: said\n");
}

}  // namespace
}  // namespace jal::drv
