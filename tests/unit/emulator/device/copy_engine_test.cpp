// The copy engine: right bytes, slice walks, refusals that name the culprit, and modelled time and energy by hand.
#include "emulator/device/copy_engine.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <jal/abi/status.h>

#include <algorithm>
#include <cstring>
#include <numeric>
#include <string>
#include <vector>

#include "emulator/device/fixed_point.hpp"
#include "emulator/hbm/host_budget.hpp"
#include "tests/unit/emulator/hbm/huge_pages.hpp"

namespace jal::emu {
namespace {

using ::testing::HasSubstr;

constexpr std::uint32_t kClient = 1;
constexpr std::uint64_t kPage = JAL_PAGE_BYTES;

class CopyEngineTest : public ::testing::Test {
 protected:
  CopyEngineTest() {
    std::string error;
    EXPECT_TRUE(load_model("jal-test4", &model, &error)) << error;
    hbm = std::make_unique<Hbm>(model.cores, model.slice_bytes, budget);
    meter = std::make_unique<EnergyMeter>(model);
    engine = std::make_unique<CopyEngine>(model, *hbm, *meter, trace);
  }

  void map(std::uint64_t mask, std::uint32_t first, std::uint64_t bytes, std::uint32_t client = kClient) {
    std::uint32_t extent = 0;
    std::string error;
    const auto pages = static_cast<std::uint32_t>((bytes + kPage - 1) / kPage);
    ASSERT_EQ(hbm->map(mask, first, pages, bytes, client, &extent, &error), JAL_OK) << error;
  }
  static std::uint64_t at(const void* pointer) {
    return reinterpret_cast<std::uintptr_t>(pointer) | JAL_ADDRESS_HOST_VA_BIT;
  }
  std::byte* hbm_data(std::uint32_t slice, std::uint64_t offset) const {
    return hbm->resolve(kClient, JAL_ADDRESS_HBM(slice, offset)).data;
  }
  hal::DmaRequest request(std::uint64_t dst, std::uint64_t src, std::uint64_t bytes, std::uint64_t mask = 0) const {
    hal::DmaRequest made;
    made.dst = dst;
    made.src = src;
    made.bytes = bytes;
    made.slice_mask = mask;
    made.client = kClient;
    return made;
  }
  std::int32_t run(const hal::DmaRequest& what) { return engine->run(what, result, fault); }
  static std::vector<unsigned char> counting(std::size_t bytes) {
    std::vector<unsigned char> data(bytes);
    for (std::size_t i = 0; i < bytes; ++i) data[i] = static_cast<unsigned char>(i * 7 + i / 251);
    return data;
  }

  Model model;
  HostBudget budget{256ull << 20};
  TraceTap trace{0};
  std::unique_ptr<Hbm> hbm;
  std::unique_ptr<EnergyMeter> meter;
  std::unique_ptr<CopyEngine> engine;
  hal::DmaResult result;
  hal::FaultReport fault;
};

TEST_F(CopyEngineTest, HostToHbmAndBack) {
  map(0b0100, 3, 100000 / 64 * 64);
  const auto in = counting(90001);
  std::vector<unsigned char> out(in.size());
  ASSERT_EQ(run(request(JAL_ADDRESS_HBM(2, 3 * kPage + 5), at(in.data()), in.size())), JAL_OK) << fault.text;
  ASSERT_EQ(run(request(at(out.data()), JAL_ADDRESS_HBM(2, 3 * kPage + 5), out.size())), JAL_OK) << fault.text;
  EXPECT_EQ(in, out);
}

TEST_F(CopyEngineTest, SliceWalksAgreeWithOneCopyPerSlice) {
  map(0b1111, 0, 4096);
  for (const std::uint64_t mask : {0b1111u, 0b1011u, 0b0100u}) {
    for (const std::uint64_t bytes : {4096u, 1000u}) {  // the whole allocation is one run, a part of it is not
      const auto in = counting(bytes * 4);
      std::vector<unsigned char> out(in.size());
      ASSERT_EQ(run(request(JAL_ADDRESS_HBM(0, 0), at(in.data()), bytes, mask)), JAL_OK) << fault.text;
      std::uint64_t part = 0;
      for (std::uint32_t slice = 0; slice < 4; ++slice) {
        if (((mask >> slice) & 1) == 0) continue;
        EXPECT_EQ(std::memcmp(hbm_data(slice, 0), in.data() + part * bytes, bytes), 0) << "slice " << slice;
        ++part;
      }
      ASSERT_EQ(run(request(at(out.data()), JAL_ADDRESS_HBM(0, 0), bytes, mask)), JAL_OK) << fault.text;
      EXPECT_EQ(std::memcmp(in.data(), out.data(), part * bytes), 0);
    }
  }
}

TEST_F(CopyEngineTest, WalkBetweenSlicesAndOneRangeOfHbm) {
  map(0b1111, 0, 1024);
  map(0b0010, 4, 4096);
  const auto in = counting(4096);
  ASSERT_EQ(run(request(JAL_ADDRESS_HBM(1, 4 * kPage), at(in.data()), 4096)), JAL_OK);
  ASSERT_EQ(run(request(JAL_ADDRESS_HBM(0, 0), JAL_ADDRESS_HBM(1, 4 * kPage), 1024, 0b1111)), JAL_OK) << fault.text;
  for (std::uint32_t slice = 0; slice < 4; ++slice)
    EXPECT_EQ(std::memcmp(hbm_data(slice, 0), in.data() + slice * 1024, 1024), 0);
  ASSERT_EQ(run(request(JAL_ADDRESS_HBM(1, 4 * kPage), JAL_ADDRESS_HBM(0, 0), 512, 0b1010)), JAL_OK) << fault.text;
  EXPECT_EQ(std::memcmp(hbm_data(1, 4 * kPage), in.data() + 1024, 512), 0);
  EXPECT_EQ(std::memcmp(hbm_data(1, 4 * kPage) + 512, in.data() + 3072, 512), 0);
}

TEST_F(CopyEngineTest, FillRepeatsThePatternInEverySlice) {
  map(0b0101, 0, 65536);
  hal::DmaRequest fill = request(JAL_ADDRESS_HBM(0, 64), 0, 40000, 0b0101);
  fill.fill = true;
  for (const std::uint32_t pattern : {0x01020304u, 0xabababab}) {
    fill.pattern = pattern;
    ASSERT_EQ(run(fill), JAL_OK) << fault.text;
    for (const std::uint32_t slice : {0u, 2u}) {
      for (std::uint64_t offset = 0; offset < 40000; offset += 4) {
        std::uint32_t word = 0;
        std::memcpy(&word, hbm_data(slice, 64 + offset), 4);
        ASSERT_EQ(word, pattern);
      }
      EXPECT_EQ(*hbm_data(slice, 63), std::byte{0});
      EXPECT_EQ(*hbm_data(slice, 64 + 40000), std::byte{0});
    }
  }
}

TEST_F(CopyEngineTest, LargeTransfersToHbmGetHugePages) {
  if (!test::system_has_huge_pages()) GTEST_SKIP() << "this kernel has no transparent huge pages";
  // Each 4 MiB, so that they share no granule: copied to, filled, written a little, read.
  constexpr std::uint64_t kBytes = 4 << 20;
  for (std::uint32_t part = 0; part < 4; ++part) map(1, part * 64, kBytes);
  std::vector<unsigned char> host(kBytes);
  const auto hbm_at = [](std::uint64_t part) { return JAL_ADDRESS_HBM(0, part * kBytes); };
  ASSERT_EQ(run(request(hbm_at(0), at(host.data()), kBytes)), JAL_OK) << fault.text;
  hal::DmaRequest fill = request(hbm_at(1), 0, kBytes);
  fill.fill = true;
  ASSERT_EQ(run(fill), JAL_OK) << fault.text;
  ASSERT_EQ(run(request(hbm_at(2), at(host.data()), 1024)), JAL_OK) << fault.text;
  ASSERT_EQ(run(request(at(host.data()), hbm_at(3), kBytes)), JAL_OK) << fault.text;
  const bool expected[] = {true, true, false, false};
  for (std::uint64_t part = 0; part < 4; ++part) {
    EXPECT_EQ(test::asks_for_huge_pages(hbm_data(0, part * kBytes + kBytes / 2)), expected[part]) << part;
  }
}

TEST_F(CopyEngineTest, HostMemoryAloneTakesTheLinkAndNoHbm) {
  std::vector<unsigned char> in = counting(4096), out(4096);
  ASSERT_EQ(run(request(at(out.data()), at(in.data()), 4096)), JAL_OK) << fault.text;
  EXPECT_EQ(in, out);
  EXPECT_EQ(result.end_ps - result.begin_ps, model.copy_start_ps + picoseconds(4096, 57.6e9));
  hal::DmaRequest fill = request(at(out.data()), 0, 4096);
  fill.fill = true;
  fill.pattern = 0x05050505;
  ASSERT_EQ(run(fill), JAL_OK) << fault.text;
  EXPECT_EQ(std::count(out.begin(), out.end(), 5), 4096);
  EXPECT_EQ(meter->read_nj(JAL_UNIT_HBM), 0u);
  EXPECT_EQ(meter->read_nj(JAL_UNIT_NOC), 0u);
}

TEST_F(CopyEngineTest, RefusalsNameTheRangeAndMoveNothing) {
  map(0b0001, 2, 4096);
  map(0b0010, 2, 4096, kClient + 1);
  auto in = counting(8192);
  EXPECT_EQ(run(request(JAL_ADDRESS_HBM(0, 2 * kPage), at(in.data()), 4097)), JAL_ERROR_BAD_ADDRESS);
  EXPECT_THAT(fault.text, HasSubstr("4097 bytes"));
  EXPECT_THAT(fault.text, HasSubstr("runs past the end"));
  EXPECT_THAT(fault.text, HasSubstr("nearest allocation: slice 0 offset 0x20000, 4096 bytes"));
  EXPECT_EQ(fault.address, JAL_ADDRESS_HBM(0, 2 * kPage));
  EXPECT_EQ(*hbm_data(0, 2 * kPage + 1), std::byte{0});

  EXPECT_EQ(run(request(JAL_ADDRESS_HBM(0, 9 * kPage), at(in.data()), 4)), JAL_ERROR_BAD_ADDRESS);
  EXPECT_THAT(fault.text, HasSubstr("is not allocated"));
  EXPECT_EQ(run(request(at(in.data()), JAL_ADDRESS_HBM(1, 2 * kPage), 4)), JAL_ERROR_FOREIGN_ADDRESS);
  EXPECT_EQ(run(request(at(in.data()), JAL_ADDRESS_HBM(77, 0), 4)), JAL_ERROR_BAD_ADDRESS);
  EXPECT_EQ(run(request(at(nullptr), JAL_ADDRESS_HBM(0, 2 * kPage), 4)), JAL_ERROR_BAD_ADDRESS);
  EXPECT_THAT(fault.text, HasSubstr("null pointer"));
  EXPECT_EQ(run(request(0x1234, at(in.data()), 4)), JAL_ERROR_BAD_ADDRESS);
  EXPECT_THAT(fault.text, HasSubstr("neither HBM nor host"));
  EXPECT_EQ(run(request(JAL_ADDRESS_HBM(0, 2 * kPage), at(in.data()), UINT64_MAX)), JAL_ERROR_BAD_ADDRESS);
  EXPECT_EQ(run(request(JAL_ADDRESS_HBM(0, 2 * kPage), at(in.data()), 4, 0b10001)), JAL_ERROR_BAD_SLICE_MASK);
  EXPECT_EQ(run(request(JAL_ADDRESS_HBM(0, 2 * kPage), JAL_ADDRESS_HBM(0, 2 * kPage), 4, 1)), JAL_ERROR_BAD_SLICE_MASK);
  EXPECT_EQ(run(request(JAL_ADDRESS_HBM(0, 2 * kPage), at(in.data()), 4, 0b101)), JAL_ERROR_BAD_ADDRESS) << "slice 2";
  hal::DmaRequest fill = request(JAL_ADDRESS_HBM(0, 2 * kPage + 2), 0, 4);
  fill.fill = true;
  EXPECT_EQ(run(fill), JAL_ERROR_UNALIGNED_ADDRESS);

  std::uint64_t energy = 0;
  for (std::uint32_t unit = 0; unit < JAL_UNIT_COUNT; ++unit) energy += meter->read_nj(unit);
  EXPECT_EQ(energy, 0u);
}

TEST_F(CopyEngineTest, TimeIsStartPlusTheNarrowestPath) {
  map(0b1111, 0, 1 << 20);
  map(0b0010, 32, 4 << 20);
  std::vector<unsigned char> host(4 << 20);
  const std::uint64_t mib = 1 << 20;
  const auto took = [&](const hal::DmaRequest& what) {
    EXPECT_EQ(run(what), JAL_OK) << fault.text;
    return result.end_ps - result.begin_ps;
  };
  const std::uint64_t start = model.copy_start_ps;
  // The host link (57.6 GB/s) is narrower than one slice (240.6).
  EXPECT_EQ(took(request(JAL_ADDRESS_HBM(0, 0), at(host.data()), mib)), start + picoseconds(mib, 57.6e9));
  EXPECT_EQ(took(request(at(host.data()), JAL_ADDRESS_HBM(0, 0), mib, 0b1111)), start + picoseconds(4 * mib, 57.6e9));
  // Within a slice: read and written there. Between slices: a NoC link (108.8 GB/s).
  EXPECT_EQ(took(request(JAL_ADDRESS_HBM(1, 0), JAL_ADDRESS_HBM(1, 32 * kPage), mib)),
            start + picoseconds(2 * mib, 240.6e9));
  EXPECT_EQ(took(request(JAL_ADDRESS_HBM(0, 0), JAL_ADDRESS_HBM(1, 32 * kPage), mib)),
            start + picoseconds(mib, 108.8e9));
  hal::DmaRequest fill = request(JAL_ADDRESS_HBM(0, 0), 0, mib, 0b1111);
  fill.fill = true;
  EXPECT_EQ(took(fill), start + picoseconds(mib, 240.6e9));
}

TEST_F(CopyEngineTest, TransfersSerialise) {
  map(0b1, 0, 4096);
  std::vector<unsigned char> host(4096);
  hal::DmaRequest copy = request(JAL_ADDRESS_HBM(0, 0), at(host.data()), 4096);
  copy.start_ps = 1000;
  ASSERT_EQ(run(copy), JAL_OK);
  EXPECT_EQ(result.begin_ps, 1000u);
  const std::uint64_t first_end = result.end_ps;
  ASSERT_EQ(run(copy), JAL_OK);
  EXPECT_EQ(result.begin_ps, first_end);
  copy.start_ps = first_end * 10;
  ASSERT_EQ(run(copy), JAL_OK);
  EXPECT_EQ(result.begin_ps, first_end * 10);
}

TEST_F(CopyEngineTest, EnergyByUnit) {
  map(0b1111, 0, 1 << 20);
  std::vector<unsigned char> host(1 << 20);
  ASSERT_EQ(run(request(JAL_ADDRESS_HBM(3, 0), at(host.data()), 1 << 20)), JAL_OK);
  EXPECT_EQ(meter->read_nj(JAL_UNIT_HBM), femtojoules(1 << 20, model.hbm_fj_per_byte) / 1000000);
  EXPECT_EQ(meter->read_nj(JAL_UNIT_UNCORE), femtojoules(1 << 20, model.host_fj_per_byte) / 1000000);
  // Slice 3 of the 2 x 2 grid is two hops from core 0, and one more to the host interface.
  EXPECT_EQ(meter->read_nj(JAL_UNIT_NOC), femtojoules(3 << 20, model.noc_fj_per_byte_hop) / 1000000);
}

TEST_F(CopyEngineTest, TraceGetsOneSpanPerTransfer) {
  map(0b1, 0, 4096);
  std::vector<unsigned char> host(4096);
  std::vector<jal_trace_span> spans;
  trace.set(
      [](void* user, const jal_trace_span* span) { static_cast<std::vector<jal_trace_span>*>(user)->push_back(*span); },
      &spans);
  hal::DmaRequest copy = request(at(host.data()), JAL_ADDRESS_HBM(0, 0), 4096);
  copy.queue = 5;
  copy.tag = 99;
  ASSERT_EQ(run(copy), JAL_OK);
  trace.set(nullptr, nullptr);
  ASSERT_EQ(run(copy), JAL_OK);
  ASSERT_EQ(spans.size(), 1u);
  EXPECT_STREQ(spans[0].name, "copy HBM to host");
  EXPECT_EQ(spans[0].track, JAL_TRACK_COPY);
  EXPECT_EQ(spans[0].kind, JAL_SPAN_COPY);
  EXPECT_EQ(spans[0].queue, 5u);
  EXPECT_EQ(spans[0].tag, 99u);
  EXPECT_EQ(spans[0].bytes, 4096u);
}

}  // namespace
}  // namespace jal::emu
