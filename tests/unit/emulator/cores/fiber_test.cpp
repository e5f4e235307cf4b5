// Fibers: suspended, resumed, abandoned and used again; what one that is not resumed leaves behind.
#include "emulator/cores/fiber.hpp"

#include <gtest/gtest.h>

#include <memory>
#include <vector>
#if defined(__SANITIZE_ADDRESS__)
  #include <sanitizer/asan_interface.h>
#endif

namespace jal::emu {
namespace {

constexpr std::size_t kStack = 64 * 1024, kL1 = 64 * 1024;

struct Walk {
  Fiber* fiber;
  std::vector<int> seen;
};

TEST(Fiber, ComesBackWhereItWasSuspended) {
  Fiber fiber(kStack, kL1);
  Walk walk{&fiber, {}};
  fiber.prepare(
      [](void* argument) {
        auto& w = *static_cast<Walk*>(argument);
        w.seen.push_back(1);
        w.fiber->suspend();
        w.seen.push_back(2);
      },
      &walk);
  fiber.resume();
  EXPECT_EQ(walk.seen, (std::vector<int>{1}));
  fiber.resume();
  EXPECT_EQ(walk.seen, (std::vector<int>{1, 2}));
}

/// Stays suspended, as the cores of a launch that failed do: a frame with an array in it, which AddressSanitizer
/// surrounds with poison, stays on the stack.
[[gnu::noinline]] void stay(Fiber& fiber) {
  volatile char frame[256];
  for (auto& c : frame) c = 1;
  fiber.suspend();
  (void)frame[0];
}

TEST(Fiber, AbandonedOrForgottenItServesAgain) {
  Fiber fiber(kStack, kL1);
  for (int i = 0; i < 3; ++i) {
    fiber.prepare([](void* argument) { stay(*static_cast<Fiber*>(argument)); }, &fiber);
    fiber.resume();
    fiber.prepare([](void* argument) { static_cast<Fiber*>(argument)->abandon(); }, &fiber);
    fiber.resume();
  }
  int ran = 0;
  fiber.prepare([](void* argument) { ++*static_cast<int*>(argument); }, &ran);
  fiber.resume();
  EXPECT_EQ(ran, 1);
}

TEST(Fiber, TheMemoryOfAForgottenOneIsPlainMemoryAfterwards) {
  auto fiber = std::make_unique<Fiber>(kStack, kL1);
  fiber->prepare([](void* argument) { stay(*static_cast<Fiber*>(argument)); }, fiber.get());
  fiber->resume();
#if defined(__SANITIZE_ADDRESS__)
  // Through an integer: what is asked is the sanitizer's mark of an address, not the memory.
  const auto low = reinterpret_cast<std::uintptr_t>(fiber->stack_low());
  EXPECT_NE(__asan_region_is_poisoned(reinterpret_cast<void*>(low), kStack), nullptr) << "the frame is marked";
  fiber.reset();
  EXPECT_EQ(__asan_region_is_poisoned(reinterpret_cast<void*>(low), kStack), nullptr);
#else
  fiber.reset();
  Fiber next(kStack, kL1);  // most likely at the same addresses
  for (std::size_t i = 0; i < kL1; i += 4096) EXPECT_EQ(next.l1()[i], std::byte{0});
#endif
}

}  // namespace
}  // namespace jal::emu
