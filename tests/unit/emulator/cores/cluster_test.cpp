// Cores: verbs, zero copy, collectives, messages, faults, and that nothing depends on the number of workers.
#include <cmath>

#include "tests/unit/emulator/cores/cluster_fixture.hpp"

namespace jal::emu::test {
namespace {

using kernel::After;
using kernel::Core;
using kernel::Ev;
using kernel::Tile;
using ::testing::HasSubstr;

TEST(Cluster, ScaleKernelOnEveryCoreReadsAndWritesItsOwnSlice) {
  Chip chip("jal-test4");
  chip.map(chip.all(), 0, 4096);
  for (std::uint32_t s = 0; s < 4; ++s) {
    for (int i = 0; i < 100; ++i) chip.at<float>(s, 0)[i] = static_cast<float>(s * 100 + static_cast<std::uint32_t>(i));
  }
  const auto result = chip.run(
      [](jal_core* raw) {
        Core& core = core_of(raw);
        const Tile<float> tile = core.alloc<float>(100);
        const Ev loaded = core.load(tile, core.local(0));
        const Ev scaled = core.scale(tile, tile, 2.0f, After(loaded));
        core.wait(core.store(core.local(0), tile, After(scaled)));
      },
      chip.all());
  ASSERT_EQ(result.status, JAL_OK) << result.fault.text;
  for (std::uint32_t s = 0; s < 4; ++s) {
    for (int i = 0; i < 100; ++i)
      ASSERT_EQ(chip.at<float>(s, 0)[i], 2.0f * static_cast<float>(s * 100 + static_cast<std::uint32_t>(i)));
  }
  EXPECT_EQ(result.bytes_local, 4u * 800);
  EXPECT_EQ(result.bytes_remote, 0u);
  EXPECT_GT(result.end_ps, 1000 + 2 * chip.model.dma_start_ps);
  EXPECT_GT(result.energy_fj[JAL_UNIT_HBM], 0u);
}

TEST(Cluster, CoresThatDoNotBlockShareOneFiber) {
  Chip chip("jal1-a0");
  const auto kernel = [](jal_core* raw) { (void)core_of(raw).alloc<float>(16); };
  ASSERT_EQ(chip.run(kernel, chip.all()).status, JAL_OK);
  EXPECT_EQ(chip.cluster->fibers_made(), 1u);
}

TEST(Cluster, StoreOverABoundTileKeepsTheTilesContents) {
  Chip chip("jal-test4");
  chip.map(1, 0, 128);
  chip.at<std::uint32_t>(0, 0)[0] = 7;
  const auto result = chip.run(
      [](jal_core* raw) {
        Core& core = core_of(raw);
        const Tile<std::uint32_t> old = core.alloc<std::uint32_t>(16);
        core.wait(core.load(old, core.local(0)));
        const Tile<std::uint32_t> fresh = core.alloc<std::uint32_t>(16);
        for (std::uint32_t& v : core.write_view(fresh)) v = 9;
        core.wait(core.store(core.local(0), fresh));
        JAL_KERNEL_ASSERT(core, core.view(old)[0] == 7);
        core.wait(core.store(core.local(64), old));
      },
      1);
  ASSERT_EQ(result.status, JAL_OK) << result.fault.text;
  EXPECT_EQ(chip.at<std::uint32_t>(0, 0)[0], 9u);
  EXPECT_EQ(chip.at<std::uint32_t>(0, 64)[0], 7u);
}

TEST(Cluster, WriteViewOfABoundTileLeavesHbmAlone) {
  Chip chip("jal-test4");
  chip.map(1, 0, 64);
  chip.at<std::uint32_t>(0, 0)[1] = 5;
  const auto result = chip.run(
      [](jal_core* raw) {
        Core& core = core_of(raw);
        const Tile<std::uint32_t> tile = core.alloc<std::uint32_t>(16);
        core.wait(core.load(tile, core.local(0)));
        core.write_view(tile)[0] = 1;
        JAL_KERNEL_ASSERT(core, core.view(tile)[1] == 5);
      },
      1);
  ASSERT_EQ(result.status, JAL_OK) << result.fault.text;
  EXPECT_EQ(chip.at<std::uint32_t>(0, 0)[0], 0u);
}

// --- collectives

void gather_kernel(jal_core* raw) {
  Core& core = core_of(raw);
  // Rank r brings r + 1 numbers in each of two rows; rank 0 brings none.
  const std::uint32_t mine = core.rank();
  const Tile<float> part = core.alloc<float>(2 * mine);
  const kernel::View<float> v = core.write_view(part);
  for (std::uint32_t i = 0; i < 2 * mine; ++i) v[i] = static_cast<float>(core.rank() * 100 + i);
  std::uint32_t total = 0;
  for (std::uint32_t r = 0; r < core.size(); ++r) total += r;
  const Tile<float> all = core.alloc<float>(2 * total);
  core.wait(core.allgather(core.all(), all, part, 2));
  const kernel::View<const float> got = core.view(all);
  std::uint32_t at = 0;
  for (std::uint32_t row = 0; row < 2; ++row) {
    for (std::uint32_t r = 0; r < core.size(); ++r) {
      for (std::uint32_t i = 0; i < r; ++i)
        JAL_KERNEL_ASSERT(core, got[at++] == static_cast<float>(r * 100 + row * r + i));
    }
  }
  core.wait(core.store(core.local(0), all));
}

TEST(Collective, AllgatherOfUnequalPartsIsSideBySideInEachRow) {
  for (const char* model : {"jal-test4", "jal1-a0", "jal1-48"}) {
    Chip chip(model);
    chip.map(chip.all(), 0, 65536);
    const auto result = chip.run(gather_kernel, chip.all());
    ASSERT_EQ(result.status, JAL_OK) << model << ": " << result.fault.text;
  }
}

/// Rounds of gathers in one group: parts of equal size, of unequal size whose sum some members take for equal parts, a
/// barrier between, one row and several. A result that was begun for one round must not come out in another.
void changing_gathers_kernel(jal_core* raw) {
  Core& core = core_of(raw);
  for (std::uint32_t round = 0; round < 40; ++round) {
    const std::uint32_t outer = 1 + round % 3;
    const bool is_equal = round % 2 == 0;
    const auto length = [&](std::uint32_t rank) {  // elements of a row
      if (is_equal) return 1 + round;
      return rank % 4 == 0 ? round : rank % 4 == 1 ? 2 + round : 1 + round;  // the average, but not everybody's
    };
    const auto value = [&](std::uint32_t rank, std::uint32_t row, std::uint32_t i) {
      return static_cast<float>(round * 100'000 + rank * 1000 + row * 100 + i);
    };
    const Tile<float> part = core.alloc<float>(outer * length(core.rank()));
    const kernel::View<float> v = core.write_view(part);
    for (std::uint32_t row = 0; row < outer; ++row) {
      for (std::uint32_t i = 0; i < length(core.rank()); ++i)
        v[row * length(core.rank()) + i] = value(core.rank(), row, i);
    }
    const Tile<float> all = core.alloc<float>(outer * (1 + round) * core.size());
    core.wait(core.allgather(core.all(), all, part, outer));
    const kernel::View<const float> got = core.view(all);
    std::uint32_t at = 0;
    for (std::uint32_t row = 0; row < outer; ++row) {
      for (std::uint32_t rank = 0; rank < core.size(); ++rank) {
        for (std::uint32_t i = 0; i < length(rank); ++i) JAL_KERNEL_ASSERT(core, got[at++] == value(rank, row, i));
      }
    }
    if (round % 5 == 0) core.wait(core.barrier(core.all()));
    core.release(part);
  }
}

TEST(Collective, GathersOfChangingShapesKeepApart) {
  for (const std::uint32_t workers : {1u, 2u, 3u}) {
    Chip chip("jal1-a0", workers);
    for (int again = 0; again < 3; ++again) {  // the second run is long enough for several workers
      const auto result = chip.run(changing_gathers_kernel, chip.all());
      ASSERT_EQ(result.status, JAL_OK) << workers << " workers: " << result.fault.text;
    }
  }
}

TEST(Collective, AGatherThatNeverCompletesLeavesNothingBehind) {
  for (const std::uint32_t workers : {1u, 2u}) {
    Chip chip("jal-test4", workers);
    chip.map(chip.all(), 0, 65536);
    const auto result = chip.run(
        [](jal_core* raw) {
          Core& core = core_of(raw);
          if (core.rank() == 3) core.fail("not I");
          const Tile<float> part = core.alloc<float>(8);
          for (float& x : core.write_view(part)) x = 1;
          const Tile<float> all = core.alloc<float>(32);
          core.wait(core.allgather(core.all(), all, part));
        },
        chip.all());
    EXPECT_THAT(result.fault.text, HasSubstr("not I"));
    EXPECT_EQ(chip.run(gather_kernel, chip.all()).status, JAL_OK) << "LeakSanitizer looks at what the first run left";
  }
}

void sum_kernel(jal_core* raw) {
  Core& core = core_of(raw);
  const Tile<float> part = core.alloc<float>(64);
  const kernel::View<float> v = core.write_view(part);
  for (std::uint32_t i = 0; i < 64; ++i) v[i] = 1.0f / static_cast<float>(1 + core.rank() * 64 + i);
  const Tile<float> sum = core.alloc<float>(64);
  core.wait(core.allreduce(core.all(), JAL_REDUCE_SUM, sum, part));
  core.wait(core.store(core.local(0), sum));
}

TEST(Collective, AllreduceSumsInTheBracketOnEveryMember) {
  Chip chip("jal1-48");
  chip.map(chip.all(), 0, 256);
  ASSERT_EQ(chip.run(sum_kernel, chip.all()).status, JAL_OK);
  struct Tree {
    static float sum(std::uint32_t first, std::uint32_t n, std::uint32_t i) {
      if (n == 1) return 1.0f / static_cast<float>(1 + first * 64 + i);
      return sum(first, (n + 1) / 2, i) + sum(first + (n + 1) / 2, n / 2, i);
    }
  };
  for (std::uint32_t s = 0; s < 48; ++s) {
    for (std::uint32_t i = 0; i < 64; ++i) ASSERT_EQ(chip.at<float>(s, 0)[i], Tree::sum(0, 48, i));
  }
}

TEST(Collective, MembersThatDisagreeAreNamed) {
  Chip chip("jal-test4");
  const auto result = chip.run(
      [](jal_core* raw) {
        Core& core = core_of(raw);
        const Tile<float> part = core.alloc<float>(core.rank() == 2 ? 8 : 4);
        for (float& v : core.write_view(part)) v = 0;
        core.wait(core.allreduce(core.all(), JAL_REDUCE_SUM, part, part));
      },
      chip.all());
  EXPECT_EQ(result.status, JAL_ERROR_KERNEL_FAULT);
  EXPECT_THAT(result.fault.text, HasSubstr("core 2"));
  EXPECT_THAT(result.fault.text, HasSubstr("disagree"));
}

TEST(Collective, SubgroupsWorkSideBySide) {
  Chip chip("jal1-a0", 2);
  const auto result = chip.run(
      [](jal_core* raw) {
        Core& core = core_of(raw);
        const std::uint32_t number = core.rank() / 8;
        const std::uint64_t row = 0xffull << (number * 8);
        const Tile<float> one = core.alloc<float>(1);
        const Tile<float> sum = core.alloc<float>(1);
        for (int round = 0; round < 20; ++round) {
          core.write_view(one)[0] = static_cast<float>(number + 1);
          core.wait(core.allreduce(kernel::Group{row}, JAL_REDUCE_SUM, sum, one));
          JAL_KERNEL_ASSERT(core, core.view(sum)[0] == 8.0f * static_cast<float>(number + 1));
        }
        core.wait(core.barrier(core.all()));
      },
      chip.all());
  ASSERT_EQ(result.status, JAL_OK) << result.fault.text;
}

TEST(Message, RingPassesATokenThroughEveryCore) {
  Chip chip("jal1-a0", 2);
  chip.map(1, 0, 64);
  const auto result = chip.run(
      [](jal_core* raw) {
        Core& core = core_of(raw);
        const std::uint32_t next = (core.rank() + 1) % core.size();
        const std::uint32_t previous = (core.rank() + core.size() - 1) % core.size();
        const Tile<std::uint32_t> token = core.alloc<std::uint32_t>(16);
        if (core.rank() == 0) {
          for (std::uint32_t& v : core.write_view(token)) v = 1;
          core.wait(core.send(next, token));
        }
        core.wait(core.recv(previous, token));
        if (core.rank() == 0) {
          core.wait(core.store(core.local(0), token));
          return;
        }
        core.write_view(token)[0] += core.rank();
        core.wait(core.send(next, token));
      },
      chip.all());
  ASSERT_EQ(result.status, JAL_OK) << result.fault.text;
  EXPECT_EQ(chip.at<std::uint32_t>(0, 0)[0], 1u + 63 * 64 / 2);
  EXPECT_EQ(result.bytes_noc, 64u * 64);
}

TEST(Message, WrongSizeIsRefused) {
  Chip chip("jal-test4");
  const auto result = chip.run(
      [](jal_core* raw) {
        Core& core = core_of(raw);
        const Tile<float> tile = core.alloc<float>(core.rank() == 0 ? 4 : 8);
        for (float& v : core.write_view(tile)) v = 0;
        if (core.rank() == 0) core.wait(core.send(1, tile));
        if (core.rank() == 1) core.wait(core.recv(0, tile));
      },
      3);
  EXPECT_EQ(result.status, JAL_ERROR_KERNEL_FAULT);
  EXPECT_THAT(result.fault.text, HasSubstr("recv of 32 bytes from rank 0: it sent 16"));
}

// --- failures

TEST(Fault, DeadlockNamesWhoWaitsForWhat) {
  Chip chip("jal-test4", 2);
  const auto result = chip.run(
      [](jal_core* raw) {
        Core& core = core_of(raw);
        if (core.rank() == 0) core.wait(core.recv(1, core.alloc<float>(1)));
        if (core.rank() > 1) core.wait(core.barrier(core.all()));
      },
      chip.all());
  EXPECT_EQ(result.status, JAL_ERROR_KERNEL_DEADLOCK);
  EXPECT_THAT(result.fault.text, HasSubstr("core 0 for a message from core 1"));
  EXPECT_THAT(result.fault.text, HasSubstr("ranks 0x3"));
  EXPECT_EQ(chip.run(gather_kernel, 1).status, JAL_ERROR_BAD_ADDRESS)
      << "the cluster goes on: this kernel stores to unmapped memory";
}

TEST(Fault, L1OverflowNamesSizes) {
  Chip chip("jal-test4");
  const auto result = chip.run([](jal_core* raw) { (void)core_of(raw).alloc<std::uint8_t>(raw->l1_bytes + 1); }, 1);
  EXPECT_EQ(result.status, JAL_ERROR_L1_OVERFLOW);
  EXPECT_THAT(result.fault.text, HasSubstr("bytes of L1"));
  EXPECT_THAT(result.fault.file, HasSubstr("cluster_test.cpp"));
  EXPECT_GT(result.fault.line, 0u);
}

TEST(Fault, TilesBeyondWhatATileCanNameAreRefused) {
  Chip chip("jal-test4");
  auto result = chip.run(
      [](jal_core* raw) {
        for (;;) (void)core_of(raw).alloc<std::uint8_t>(0);
      },
      1);
  EXPECT_EQ(result.status, JAL_ERROR_L1_OVERFLOW);
  EXPECT_THAT(result.fault.text, HasSubstr("16383 tiles"));
  // Sizes and offsets that do not fit their field must not come out as others that do.
  constexpr std::uint32_t kWraps = 1u << 30;  // times four: 0 in 32 bits
  result = chip.run([](jal_core* raw) { (void)core_of(raw).alloc<float>(kWraps); }, 1);
  EXPECT_EQ(result.status, JAL_ERROR_L1_OVERFLOW) << result.fault.text;
  for (const std::uint32_t far : {kWraps, 1u << 23, 1u << 26}) {
    result = chip.run(
        [](jal_core* raw) {
          kernel::Core& core = core_of(raw);
          const auto first = *static_cast<const std::uint32_t*>(raw->arguments);
          (void)core.view(core.alloc<float>(16).part(first, 1));
        },
        1, &far, sizeof far);
    EXPECT_EQ(result.status, JAL_ERROR_KERNEL_FAULT) << far;
    EXPECT_THAT(result.fault.text, HasSubstr("of tile 1, which has 64")) << far;
    result = chip.run(
        [](jal_core* raw) {
          kernel::Core& core = core_of(raw);
          const auto count = *static_cast<const std::uint32_t*>(raw->arguments);
          (void)core.view(core.alloc<float>(16).part(0, count));
        },
        1, &far, sizeof far);
    EXPECT_EQ(result.status, JAL_ERROR_KERNEL_FAULT) << far;
  }
}

TEST(Fault, ATicketsTimeHasALimitAndSaysSo) {
  Chip chip("jal-test4");
  chip.model.vector_flops_per_second = 1;  // an addition of 16 elements takes 16 s
  chip.cluster =
      std::make_unique<CoreCluster>(chip.model, *chip.hbm, chip.pool, chip.trace, chip.text, CoreCluster::Options{});
  const auto add = [](jal_core* raw) {
    kernel::Core& core = core_of(raw);
    const auto times = *static_cast<const std::uint32_t*>(raw->arguments);
    const kernel::Tile<float> a = core.alloc<float>(16);
    for (float& x : core.write_view(a)) x = 1;
    for (std::uint32_t i = 0; i < times; ++i) core.wait(core.add(a, a, a));
  };
  std::uint32_t times = 1;
  const auto once = chip.run(add, 1, &times, sizeof times);
  EXPECT_EQ(once.status, JAL_OK) << once.fault.text;
  EXPECT_GT(once.end_ps, 16'000'000'000'000u);
  times = 2;
  const auto twice = chip.run(add, 1, &times, sizeof times);
  EXPECT_EQ(twice.status, JAL_ERROR_KERNEL_FAULT);
  EXPECT_THAT(twice.fault.text, HasSubstr("17592186044415"));
  times = 1;
  EXPECT_EQ(chip.run(add, 1, &times, sizeof times).status, JAL_OK) << "the chip is not lost";
}

TEST(Ticket, HoldsTimeEngineAndNumber) {
  const jal_ev ev = jal_ev_make(JAL_EV_TIME_MAX, JAL_ENGINE_NOC, 5);
  EXPECT_EQ(jal_ev_time_ps(ev), JAL_EV_TIME_MAX);
  EXPECT_EQ(jal_ev_engine(ev), JAL_ENGINE_NOC);
  constexpr std::uint32_t kTurn = 1u << JAL_EV_SEQUENCE_BITS;
  EXPECT_EQ(jal_ev_sequence(ev, 5), 5u);
  EXPECT_EQ(jal_ev_sequence(ev, kTurn + 4), 5u);
  EXPECT_EQ(jal_ev_sequence(ev, kTurn + 5), kTurn + 5);
  EXPECT_EQ(jal_ev_sequence(jal_ev_make(0, JAL_ENGINE_DMA, 3 * kTurn + 7), 3 * kTurn + 8), 3 * kTurn + 7);
}

TEST(Fault, UnmappedAddressNamesSliceAndOffset) {
  Chip chip("jal-test4");
  const auto result = chip.run(
      [](jal_core* raw) { (void)core_of(raw).load(core_of(raw).alloc<float>(4), core_of(raw).local(0x20000)); }, 2);
  EXPECT_EQ(result.status, JAL_ERROR_BAD_ADDRESS);
  EXPECT_EQ(result.fault.address, JAL_ADDRESS_HBM(1, 0x20000));
  EXPECT_THAT(result.fault.text, HasSubstr("slice 1, offset 0x20000"));
}

#if !defined(__SANITIZE_THREAD__)
TEST(Fault, NullPointerInAKernelEndsTheDispatchOnly) {
  Chip chip("jal1-a0", 2);
  for (int round = 0; round < 3; ++round) {
    const auto result = chip.run(
        [](jal_core* raw) {
          Core& core = core_of(raw);
          core.wait(core.barrier(core.all()));
          if (core.rank() == 37) {
            volatile std::uintptr_t nowhere = 16;
            *reinterpret_cast<volatile int*>(nowhere) = 1;
          }
          core.wait(core.barrier(core.all()));
        },
        chip.all());
    EXPECT_EQ(result.status, JAL_ERROR_KERNEL_FAULT);
    EXPECT_EQ(result.fault.core, 37u);
    EXPECT_EQ(result.fault.address, 16u);
  }
}

TEST(Fault, EndlessLoopMissesItsDeadlineAndTheChipIsLost) {
  Chip chip("jal-test4", 2, 0, 200'000'000);
  const auto result = chip.run(
      [](jal_core* raw) {
        volatile std::uint64_t spin = 1;
        if (raw->index == 1) {
          while (spin != 0) spin = spin + 2;
        }
      },
      chip.all());
  EXPECT_EQ(result.status, JAL_ERROR_KERNEL_DEADLINE);
  EXPECT_THAT(result.fault.text, HasSubstr("0.200 s"));
  EXPECT_EQ(chip.run(gather_kernel, 1).status, JAL_ERROR_DEVICE_LOST);
}

TEST(Fault, StackOverflowIsAFaultAndNotACrash) {
  Chip chip("jal-test4");
  struct Deep {
    static int dig(volatile char* above, int n) {
      volatile char frame[512];
      frame[0] = above[0];
      return n <= 0 ? frame[0] : dig(frame, n - 1) + frame[0];
    }
  };
  const auto result = chip.run(
      [](jal_core*) {
        volatile char zero[1] = {0};
        volatile int depth = 100000;
        (void)Deep::dig(zero, depth);
      },
      1);
  EXPECT_EQ(result.status, JAL_ERROR_KERNEL_FAULT);
  EXPECT_THAT(result.fault.text, HasSubstr("overflowed its stack"));
}
#endif

// --- determinism

void mixed_kernel(jal_core* raw) {
  Core& core = core_of(raw);
  const Tile<float> part = core.alloc<float>(96);
  for (std::uint32_t i = 0; i < 96; ++i) core.write_view(part)[i] = std::sin(static_cast<float>(core.rank() * 96 + i));
  const Tile<float> all = core.alloc<float>(96 * core.size());
  for (int round = 0; round < 8; ++round) {
    core.wait(core.allgather(core.all(), all, part));
    const Tile<float> sum = core.alloc<float>(96);
    core.wait(core.allreduce(core.all(), JAL_REDUCE_SUM, sum, part));
    core.wait(core.add(part, part, sum));
    const std::uint32_t to = (core.rank() + 1) % core.size();
    core.wait(core.send(to, part));
    const Tile<float> got = core.alloc<float>(96);
    core.wait(core.recv((core.rank() + core.size() - 1) % core.size(), got));
    core.wait(core.add(part, part, got));
    core.wait(core.scale(part, part, 1.0f / 128));
    core.release(sum);
  }
  core.wait(core.store(core.local(0), part));
}

TEST(Determinism, BitsPicosecondsAndJoulesAreEqualForOneAndTwoWorkers) {
  std::vector<std::vector<float>> bits;
  std::vector<hal::CoreJobResult> results;
  for (const std::uint32_t workers : {1u, 2u, 2u, 4u}) {
    Chip chip("jal1-48", workers);
    chip.map(chip.all(), 0, 384);
    results.push_back(chip.run(mixed_kernel, chip.all()));
    ASSERT_EQ(results.back().status, JAL_OK) << results.back().fault.text;
    bits.emplace_back();
    for (std::uint32_t s = 0; s < 48; ++s)
      bits.back().insert(bits.back().end(), chip.at<float>(s, 0), chip.at<float>(s, 0) + 96);
  }
  for (std::size_t i = 1; i < results.size(); ++i) {
    EXPECT_EQ(std::memcmp(bits[0].data(), bits[i].data(), bits[0].size() * 4), 0);
    EXPECT_EQ(results[0].end_ps, results[i].end_ps);
    EXPECT_EQ(std::memcmp(results[0].energy_fj, results[i].energy_fj, sizeof results[0].energy_fj), 0);
    EXPECT_EQ(std::memcmp(results[0].busy_ps, results[i].busy_ps, sizeof results[0].busy_ps), 0);
  }
}

}  // namespace
}  // namespace jal::emu::test
