// Tensors: descriptors, and transfers against the definition of jal/abi/tensor.h, element by element.
#include <cmath>
#include <random>

#include "runtime/tensor/weight_tile.hpp"
#include "tests/unit/libjal/library_fixture.hpp"

namespace jal::test {
namespace {

__extension__ typedef _Float16 Half;
using Dims = std::vector<std::uint64_t>;

class Tensors : public LibraryTest {
 protected:
  jal_tensor_info make(std::uint32_t dtype, const Dims& dims) {
    jal_tensor_info info{};
    JAL_EXPECT_OK(jal_tensor_info_init(&info, dtype, static_cast<std::uint32_t>(dims.size()), dims.data()));
    return info;
  }
  /// Memory for the tensor, its offset in the descriptor; filled with garbage so that padding must be written.
  void place(jal_tensor_info* info) {
    const jal_memory_info memory = info_of(alloc(info->slice_mask, info->bytes_per_slice));
    info->offset = memory.offset;
    const std::vector<unsigned char> garbage(memory.bytes_per_slice, 0xa5);
    for (std::uint32_t s = 0; s < 4; ++s) {
      if ((info->slice_mask >> s & 1) == 0) continue;
      JAL_EXPECT_OK(jal_copy_to_device_blocking(device_, JAL_ADDRESS_HBM(s, info->offset), garbage.data(),
                                                garbage.size(), soon()));
    }
  }
  static jal_tensor_host host(std::uint32_t dtype, const void* data, const void* scales = nullptr) {
    jal_tensor_host array{};
    array.struct_size = sizeof array;
    array.dtype = dtype;
    array.data = const_cast<void*>(data);
    array.scales = const_cast<void*>(scales);
    return array;
  }
  std::vector<unsigned char> slice_bytes(const jal_tensor_info& info, std::uint32_t slice) {
    std::vector<unsigned char> bytes(info.bytes_per_slice);
    JAL_EXPECT_OK(
        jal_copy_to_host_blocking(device_, bytes.data(), JAL_ADDRESS_HBM(slice, info.offset), bytes.size(), soon()));
    return bytes;
  }
  /// What the definition says slice number `rank` holds at linear place `at`: host element, or -1 for padding.
  static std::int64_t defined_element(const jal_tensor_info& info, std::uint64_t rank, std::uint64_t at) {
    std::uint64_t coordinate[JAL_TENSOR_FACTORS] = {};
    for (std::uint32_t i = info.nfactors; i-- > 0;) {
      std::uint64_t& rest = info.factors[i].place == JAL_PLACE_SLICE ? rank : at;
      coordinate[i] = rest % info.factors[i].extent;
      rest /= info.factors[i].extent;
    }
    std::uint64_t element = 0;
    for (std::uint32_t d = 0; d < info.ndim; ++d) {
      std::uint64_t index = 0;
      for (std::uint32_t i = 0; i < info.nfactors; ++i) {
        if (info.factors[i].dim == static_cast<int>(d)) index = index * info.factors[i].extent + coordinate[i];
      }
      if (index >= info.dims[d]) return -1;
      element = element * info.dims[d] + index;
    }
    return static_cast<std::int64_t>(element);
  }
  void expect_u32_round_trip(jal_tensor_info info, const char* what) {
    SCOPED_TRACE(what);
    JAL_ASSERT_OK(jal_tensor_check(&info));
    place(&info);
    std::uint64_t bytes = 0;
    JAL_ASSERT_OK(jal_tensor_host_bytes(&info, 0, &bytes));
    std::vector<std::uint32_t> values(bytes / 4), back(bytes / 4, 7);
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<std::uint32_t>(i + 1);
    const jal_tensor_host from = host(JAL_DTYPE_U32, values.data()), to = host(JAL_DTYPE_U32, back.data());
    JAL_ASSERT_OK(jal_tensor_upload(device_, &info, &from, soon()));
    std::uint64_t rank = 0;
    for (std::uint32_t s = 0; s < 4; ++s) {
      if ((info.slice_mask >> s & 1) == 0) continue;
      const std::vector<unsigned char> got = slice_bytes(info, s);
      for (std::uint64_t at = 0; at < info.bytes_per_slice / 4; ++at) {
        std::uint32_t value = 0;
        std::memcpy(&value, got.data() + at * 4, 4);
        const std::int64_t element = defined_element(info, rank, at);
        ASSERT_EQ(value, element < 0 ? 0 : values[static_cast<std::size_t>(element)])
            << "slice " << s << " place " << at;
      }
      ++rank;
    }
    JAL_ASSERT_OK(jal_tensor_download(device_, &info, &to, soon()));
    EXPECT_EQ(back, values);
  }
};

TEST_F(Tensors, BlockedCyclicAndReplicatedPlacementsHoldTheDefinedElements) {
  for (const Dims& dims : {Dims{7}, Dims{9, 5}, Dims{3, 4, 5}, Dims{1, 6}, Dims{13, 1}, Dims{2, 3, 2, 2, 1, 3}}) {
    for (std::uint32_t d = 0; d < dims.size(); ++d) {
      for (const std::uint64_t mask : {0b0001ull, 0b1010ull, 0b0111ull, 0b1111ull}) {
        for (const std::uint32_t order : {JAL_TENSOR_BLOCKED, JAL_TENSOR_CYCLIC}) {
          jal_tensor_info info = make(JAL_DTYPE_U32, dims);
          JAL_ASSERT_OK(jal_tensor_shard(&info, d, mask, order));
          expect_u32_round_trip(info, "shard");
        }
      }
    }
    jal_tensor_info info = make(JAL_DTYPE_U32, dims);
    expect_u32_round_trip(info, "whole");
    JAL_ASSERT_OK(jal_tensor_replicate(&info, 0b1101));
    expect_u32_round_trip(info, "replicated");
  }
}

TEST_F(Tensors, RandomFactorsHoldTheDefinedElements) {
  const std::uint32_t seed = std::random_device{}();
  SCOPED_TRACE(seed);
  std::mt19937 random(seed);
  const auto pick = [&](std::uint32_t low, std::uint32_t high) {
    return low + static_cast<std::uint32_t>(random() % (high - low + 1));
  };
  for (int round = 0; round < 60; ++round) {
    jal_tensor_info info{};
    info.struct_size = sizeof info;
    info.dtype = JAL_DTYPE_U32;
    info.ndim = pick(1, 3);
    for (std::uint64_t& dim : info.dims) dim = 1;
    std::vector<jal_tensor_factor> factors;
    std::uint64_t covered[3] = {1, 1, 1};
    for (std::uint32_t d = 0; d < info.ndim; ++d) {
      for (std::uint32_t n = pick(1, 2); n > 0; --n) {
        factors.push_back({static_cast<std::int16_t>(d), JAL_PLACE_LINEAR, pick(1, 5)});
        covered[d] *= factors.back().extent;
      }
    }
    const std::uint32_t slices = pick(1, 2);  // 2 or 4 slices
    for (std::uint32_t i = 0; i < slices; ++i) {
      const auto dim = static_cast<std::int16_t>(static_cast<int>(pick(0, info.ndim)) - 1);
      factors.push_back({dim, JAL_PLACE_SLICE, 2});
      if (dim >= 0) covered[dim] *= 2;
    }
    if (factors.size() < JAL_TENSOR_FACTORS && pick(0, 3) == 0) factors.push_back({-1, JAL_PLACE_LINEAR, 2});
    std::shuffle(factors.begin(), factors.end(), random);
    for (std::uint32_t d = 0; d < info.ndim; ++d) info.dims[d] = pick(1, static_cast<std::uint32_t>(covered[d]));
    info.nfactors = static_cast<std::uint32_t>(factors.size());
    std::copy(factors.begin(), factors.end(), info.factors);
    info.slice_mask = slices == 1 ? 0b1001 : 0b1111;
    expect_u32_round_trip(info, "random");
    if (HasFatalFailure()) return;
  }
}

TEST_F(Tensors, LocateAgreesWithTheDefinition) {
  jal_tensor_info info = make(JAL_DTYPE_BF16, {576, 40});
  JAL_ASSERT_OK(jal_tensor_shard(&info, 0, 0b1110, JAL_TENSOR_CYCLIC));
  std::uint32_t slice = 0;
  std::uint64_t element = 0;
  const std::uint64_t index[2] = {100, 39};
  JAL_EXPECT_OK(jal_tensor_locate(&info, index, &slice, &element));
  EXPECT_EQ(slice, 1u + 100 % 3);
  EXPECT_EQ(element, 100u / 3 * 40 + 39);
  EXPECT_EQ(info.bytes_per_slice, 192u * 40 * 2);
  const std::uint64_t outside[2] = {576, 0};
  JAL_EXPECT_FAILS(jal_tensor_locate(&info, outside, &slice, &element), JAL_ERROR_INVALID_ARGUMENT, "576 elements");
}

TEST_F(Tensors, FloatsConvertIntoEachOther) {
  jal_tensor_info info = make(JAL_DTYPE_BF16, {5, 7});
  JAL_ASSERT_OK(jal_tensor_shard(&info, 0, 0b1011, JAL_TENSOR_BLOCKED));
  place(&info);
  std::vector<float> values(35), back(35);
  for (std::size_t i = 0; i < values.size(); ++i)
    values[i] = std::ldexp(1.0f + static_cast<float>(i) / 7, static_cast<int>(i) - 12);
  const jal_tensor_host from = host(JAL_DTYPE_F32, values.data()), to = host(JAL_DTYPE_F32, back.data());
  JAL_ASSERT_OK(jal_tensor_upload(device_, &info, &from, soon()));
  JAL_ASSERT_OK(jal_tensor_download(device_, &info, &to, soon()));
  for (std::size_t i = 0; i < values.size(); ++i) EXPECT_EQ(back[i], rt::f32_from_bf16(rt::bf16_from_f32(values[i])));
  std::vector<std::uint16_t> half(35);
  const jal_tensor_host to_half = host(JAL_DTYPE_F16, half.data());
  JAL_ASSERT_OK(jal_tensor_download(device_, &info, &to_half, soon()));
  for (std::size_t i = 0; i < values.size(); ++i) {
    // The compiler's own half precision is the independent reference.
    const auto reference = static_cast<Half>(back[i]);
    std::uint16_t bits = 0;
    std::memcpy(&bits, &reference, 2);
    EXPECT_EQ(half[i], bits) << back[i];
  }
  const jal_tensor_host integers = host(JAL_DTYPE_I32, values.data());
  JAL_EXPECT_FAILS(jal_tensor_upload(device_, &info, &integers, soon()), JAL_ERROR_TENSOR_DTYPE,
                   "host i32 and tensor bf16");
}

/// rows x k values of a shape that is a multiple of nothing.
std::vector<float> wavy(std::size_t count) {
  std::vector<float> values(count);
  for (std::size_t i = 0; i < count; ++i)
    values[i] = std::sin(static_cast<float>(i) * 0.7f) * std::exp2(static_cast<float>(i % 5) - 2);
  return values;
}

TEST_F(Tensors, EngineTilesOfEverySliceAreThePackersBytes) {
  constexpr std::uint64_t kRows = 10, kColumns = 70;
  const std::vector<float> values = wavy(kRows * kColumns);
  for (const std::uint32_t dtype : {JAL_DTYPE_BF16, JAL_DTYPE_MXFP8, JAL_DTYPE_MXFP4}) {
    SCOPED_TRACE(jal_dtype_name(dtype));
    jal_tensor_info info = make(dtype, {kRows, kColumns});
    JAL_ASSERT_OK(jal_tensor_set_tiling(&info, JAL_TILING_ENGINE));
    JAL_ASSERT_OK(jal_tensor_shard(&info, 0, 0b1111, JAL_TENSOR_BLOCKED));
    place(&info);
    const jal_tensor_host from = host(JAL_DTYPE_F32, values.data());
    JAL_ASSERT_OK(jal_tensor_upload(device_, &info, &from, soon()));
    const rt::WeightTile tile(dtype, 3, kColumns);
    EXPECT_EQ(info.bytes_per_slice, tile.bytes);
    for (std::uint32_t s = 0; s < 4; ++s) {
      std::vector<unsigned char> want(tile.bytes);
      for (std::uint64_t r = 0; r < 3 && s * 3 + r < kRows; ++r) {
        rt::pack_row_f32(tile, r, values.data() + (s * 3 + r) * kColumns, kColumns, want.data());
      }
      EXPECT_EQ(slice_bytes(info, s), want) << "slice " << s;
    }
    // What comes back is what the tiles hold; sent again it makes the same tiles.
    std::vector<float> back(values.size()), again(values.size());
    const jal_tensor_host to = host(JAL_DTYPE_F32, back.data()), to_again = host(JAL_DTYPE_F32, again.data());
    JAL_ASSERT_OK(jal_tensor_download(device_, &info, &to, soon()));
    JAL_ASSERT_OK(jal_tensor_upload(device_, &info, &to, soon()));
    JAL_ASSERT_OK(jal_tensor_download(device_, &info, &to_again, soon()));
    EXPECT_EQ(again, back);
    for (std::size_t i = 0; i < values.size(); ++i)
      EXPECT_NEAR(back[i], values[i], 0.25 * std::fabs(values[i]) + 0.5) << i;
    // From BF16 the same as from the BF16 values in FP32.
    std::vector<std::uint16_t> bf16(values.size());
    for (std::size_t i = 0; i < values.size(); ++i) bf16[i] = rt::bf16_from_f32(back[i]);
    const jal_tensor_host from_bf16 = host(JAL_DTYPE_BF16, bf16.data());
    JAL_ASSERT_OK(jal_tensor_upload(device_, &info, &from_bf16, soon()));
    JAL_ASSERT_OK(jal_tensor_download(device_, &info, &to_again, soon()));
    EXPECT_EQ(again, back);
  }
}

TEST_F(Tensors, MxCodesTravelUnchangedAlsoOverColumns) {
  constexpr std::uint64_t kRows = 6, kColumns = 256;
  for (const std::uint32_t dtype : {JAL_DTYPE_MXFP8, JAL_DTYPE_MXFP4}) {
    for (const std::uint32_t dim : {0u, 1u}) {
      SCOPED_TRACE(dim);
      jal_tensor_info info = make(dtype, {kRows, kColumns});
      JAL_ASSERT_OK(jal_tensor_shard(&info, dim, 0b1111, JAL_TENSOR_BLOCKED));
      place(&info);
      std::uint64_t bytes = 0;
      JAL_ASSERT_OK(jal_tensor_host_bytes(&info, 0, &bytes));
      EXPECT_EQ(bytes, kRows * kColumns / (dtype == JAL_DTYPE_MXFP8 ? 1 : 2));
      std::vector<std::uint8_t> codes(bytes), scales(kRows * kColumns / 32), codes_back(bytes),
          scales_back(scales.size());
      for (std::size_t i = 0; i < codes.size(); ++i) codes[i] = static_cast<std::uint8_t>(i * 37 % 127);  // no NaN code
      for (std::size_t i = 0; i < scales.size(); ++i) scales[i] = static_cast<std::uint8_t>(100 + i);
      const jal_tensor_host from = host(dtype, codes.data(), scales.data());
      const jal_tensor_host to = host(dtype, codes_back.data(), scales_back.data());
      JAL_ASSERT_OK(jal_tensor_upload(device_, &info, &from, soon()));
      JAL_ASSERT_OK(jal_tensor_download(device_, &info, &to, soon()));
      EXPECT_EQ(codes_back, codes);
      EXPECT_EQ(scales_back, scales);
      const jal_tensor_host bare = host(dtype, codes.data());
      JAL_EXPECT_FAILS(jal_tensor_upload(device_, &info, &bare, soon()), JAL_ERROR_INVALID_ARGUMENT, "scales are NULL");
    }
  }
}

TEST_F(Tensors, BadDescriptorsAreNamed) {
  jal_tensor_info info{};
  const std::uint64_t dims[2] = {4, 0};
  JAL_EXPECT_FAILS(jal_tensor_info_init(&info, JAL_DTYPE_F32, 2, dims), JAL_ERROR_BAD_TENSOR, "dimension 1 has 0");
  JAL_EXPECT_FAILS(jal_tensor_info_init(&info, JAL_DTYPE_F32, 7, dims), JAL_ERROR_BAD_TENSOR, "7 dimensions");
  JAL_EXPECT_FAILS(jal_tensor_info_init(&info, 99, 1, dims), JAL_ERROR_TENSOR_DTYPE, "dtype 99");
  JAL_EXPECT_FAILS(jal_tensor_info_init(&info, JAL_DTYPE_MXFP4, 1, dims), JAL_ERROR_BAD_TENSOR, "rows and k");
  const jal_tensor_info good = make(JAL_DTYPE_F32, {8, 8});
  info = good;
  JAL_EXPECT_FAILS(jal_tensor_set_tiling(&info, JAL_TILING_ENGINE), JAL_ERROR_TENSOR_DTYPE, "not f32");
  JAL_EXPECT_FAILS(jal_tensor_shard(&info, 2, 1, JAL_TENSOR_BLOCKED), JAL_ERROR_BAD_TENSOR, "dimension 2");
  JAL_EXPECT_FAILS(jal_tensor_shard(&info, 0, 0, JAL_TENSOR_BLOCKED), JAL_ERROR_BAD_SLICE_MASK, "at least one");
  JAL_EXPECT_FAILS(jal_tensor_shard(&info, 0, 1, 5), JAL_ERROR_INVALID_ARGUMENT, "order 5");
  EXPECT_EQ(std::memcmp(&info, &good, sizeof info), 0);  // failed calls changed nothing
  const auto broken = [&](auto&& change, jal_status_t status, const char* words) {
    jal_tensor_info bad = good;
    change(bad);
    JAL_EXPECT_FAILS(jal_tensor_check(&bad), status, words);
  };
  broken([](auto& t) { t.struct_size = 8; }, JAL_ERROR_BAD_TENSOR, "struct_size");
  broken([](auto& t) { t.reserved1[11] = 1; }, JAL_ERROR_BAD_TENSOR, "reserved");
  broken([](auto& t) { t.factors[0].extent = 0; }, JAL_ERROR_BAD_TENSOR, "factor 0");
  broken([](auto& t) { t.factors[0].dim = 3; }, JAL_ERROR_BAD_TENSOR, "factor 0");
  broken([](auto& t) { t.factors[0].extent = 7; }, JAL_ERROR_BAD_TENSOR, "cover 7");
  broken([](auto& t) { t.factors[0].extent = t.factors[1].extent = 1u << 31; }, JAL_ERROR_BAD_TENSOR, "2^48");
  broken([](auto& t) { t.slice_mask = 3; }, JAL_ERROR_BAD_TENSOR, "span 1 slices");
  broken([](auto& t) { t.nfactors = 9; }, JAL_ERROR_BAD_TENSOR, "9 factors");
  broken([](auto& t) { t.offset = 4; }, JAL_ERROR_UNALIGNED_ADDRESS, "multiple of 64");
  broken([](auto& t) { t.bytes_per_slice = 255; }, JAL_ERROR_BAD_TENSOR, "255");
  broken([](auto& t) { t.tiling = 2; }, JAL_ERROR_TENSOR_DTYPE, "tiling 2");
}

TEST_F(Tensors, TransfersOutsideMemoryFailByName) {
  jal_tensor_info info = make(JAL_DTYPE_F32, {8});
  std::vector<float> values(8);
  const jal_tensor_host array = host(JAL_DTYPE_F32, values.data());
  JAL_EXPECT_FAILS(jal_tensor_upload(device_, &info, &array, soon()), JAL_ERROR_BAD_ADDRESS, "uploading a f32 tensor");
  info.slice_mask = 1ull << 20;
  JAL_EXPECT_FAILS(jal_tensor_upload(device_, &info, &array, soon()), JAL_ERROR_BAD_SLICE_MASK, "slices 0..3");
  info.slice_mask = 1;
  info.offset = ~63ull & 0xffffffffull;
  JAL_EXPECT_FAILS(jal_tensor_upload(device_, &info, &array, soon()), JAL_ERROR_TENSOR_RANGE, "beyond a slice");
  jal_tensor_host bad = array;
  bad.struct_size = 1;
  JAL_EXPECT_FAILS(jal_tensor_upload(device_, &info, &bad, soon()), JAL_ERROR_WRONG_STRUCT_SIZE, "jal_tensor_host");
}

}  // namespace
}  // namespace jal::test
