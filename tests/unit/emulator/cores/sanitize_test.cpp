// JAL_SANITIZE: each kind finds its fault with kernel file and line, and says nothing of a clean kernel.
#include <jal/abi/instance.h>

#include "tests/unit/emulator/cores/cluster_fixture.hpp"

namespace jal::emu::test {
namespace {

using kernel::After;
using kernel::Core;
using kernel::Ev;
using kernel::Tile;
using ::testing::HasSubstr;

constexpr std::uint32_t kAll = JAL_SANITIZE_MEMORY | JAL_SANITIZE_INIT | JAL_SANITIZE_RACE | JAL_SANITIZE_LOCALITY;

hal::CoreJobResult run_sanitized(jal_kernel_function function, std::uint32_t bits = kAll) {
  Chip chip("jal-test4", 1, bits);
  chip.map(chip.all(), 0, 4096);
  return chip.run(function, 3);
}

void expect_report(const hal::CoreJobResult& result, const char* text) {
  EXPECT_EQ(result.status, JAL_ERROR_SANITIZER) << result.fault.text;
  EXPECT_THAT(result.fault.text, HasSubstr(text));
  EXPECT_THAT(result.fault.file, HasSubstr("sanitize_test.cpp"));
  EXPECT_GT(result.fault.line, 0u);
}

TEST(Sanitize, CleanKernelIsSilent) {
  const auto result = run_sanitized([](jal_core* raw) {
    Core& core = core_of(raw);
    const Tile<float> tile = core.alloc<float>(64);
    const Ev loaded = core.load(tile, core.local(0));
    const Ev scaled = core.scale(tile, tile, 2.0f, After(loaded));
    const Ev stored = core.store(core.local(0), tile, After(scaled));
    core.wait(stored);
    core.wait(scaled);
    (void)core.view(tile)[0];
    const Tile<float> sum = core.alloc<float>(64);
    core.wait(core.allreduce(core.all(), JAL_REDUCE_SUM, sum, tile));
    (void)core.view(sum)[3];
    core.release(tile);
  });
  EXPECT_EQ(result.status, JAL_OK) << result.fault.text;
}

TEST(Sanitize, RaceViewOfATileBeforeItsLoadWasWaitedFor) {
  expect_report(run_sanitized([](jal_core* raw) {
                  Core& core = core_of(raw);
                  const Tile<float> tile = core.alloc<float>(64);
                  (void)core.load(tile, core.local(0));
                  (void)core.view(tile)[0];
                }),
                "race: view is read before the DMA has written it");
}

TEST(Sanitize, RaceEngineReadsATileWithoutNamingItsLoad) {
  expect_report(run_sanitized([](jal_core* raw) {
                  Core& core = core_of(raw);
                  const Tile<float> tile = core.alloc<float>(64);
                  (void)core.load(tile, core.local(0));
                  core.wait(core.scale(tile, tile, 2.0f));
                }),
                "race: vec's a is read before the DMA");
}

TEST(Sanitize, InitReadOfATileThatNobodyWrote) {
  expect_report(run_sanitized([](jal_core* raw) {
                  Core& core = core_of(raw);
                  const Tile<float> tile = core.alloc<float>(64);
                  core.wait(core.load(tile.part(0, 32), core.local(0)));
                  core.wait(core.store(core.local(0), tile));
                }),
                "init: store: byte 128");
}

TEST(Sanitize, MemoryViewWrittenPastItsEnd) {
  expect_report(run_sanitized([](jal_core* raw) {
                  Core& core = core_of(raw);
                  const Tile<std::uint32_t> tile = core.alloc<std::uint32_t>(16);
                  core.write_view(tile).data()[16] = 1;
                  core.release(tile);
                }),
                "memory: byte 64 was written behind tile 1");
}

TEST(Sanitize, MemoryOverrunIsFoundAtTheKernelsEndToo) {
  const auto result = run_sanitized([](jal_core* raw) {
    Core& core = core_of(raw);
    const Tile<std::uint32_t> tile = core.alloc<std::uint32_t>(16);
    core.write_view(tile).data()[17] = 1;
  });
  EXPECT_EQ(result.status, JAL_ERROR_SANITIZER);
  EXPECT_THAT(result.fault.text, HasSubstr("byte 68 was written behind tile 1"));
}

TEST(Sanitize, MemoryEngineReachesPastItsTile) {
  expect_report(run_sanitized([](jal_core* raw) {
                  Core& core = core_of(raw);
                  const Tile<float> small = core.alloc<float>(8);
                  const Tile<float> large = core.alloc<float>(16);
                  for (float& v : core.write_view(small)) v = 1;
                  core.wait(core.scale(large, small, 1.0f));
                }),
                "memory: vec's a needs 64 bytes, its tile has 32");
}

TEST(Sanitize, LocalityRemoteLoadIsNamedWithItsBytes) {
  expect_report(run_sanitized([](jal_core* raw) {
                  Core& core = core_of(raw);
                  core.wait(core.load(core.alloc<float>(16), JAL_ADDRESS_HBM(3, 0)));
                }),
                "locality: load of 64 bytes in slice 3");
}

TEST(Sanitize, OneKindDoesNotReportAnother) {
  const auto result = run_sanitized(
      [](jal_core* raw) {
        Core& core = core_of(raw);
        const Tile<float> tile = core.alloc<float>(64);
        (void)core.load(tile, JAL_ADDRESS_HBM(3, 0));
        (void)core.view(tile)[0];
      },
      JAL_SANITIZE_MEMORY);
  EXPECT_EQ(result.status, JAL_OK) << result.fault.text;
}

}  // namespace
}  // namespace jal::emu::test
