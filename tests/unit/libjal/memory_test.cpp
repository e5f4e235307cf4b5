// Memory by slice, its four layers, host memory; copies and fills.
#include <numeric>

#include "tests/unit/libjal/library_fixture.hpp"

namespace jal::test {
namespace {

class Memory : public LibraryTest {};

std::vector<std::uint32_t> ramp(std::size_t words, std::uint32_t first = 1) {
  std::vector<std::uint32_t> values(words);
  std::iota(values.begin(), values.end(), first);
  return values;
}

TEST_F(Memory, AllocTakesWholePagesOfItsSlicesAndFreeGivesThemBack) {
  const jal_memory_layers before = layers();
  EXPECT_EQ(before.chip_bytes, info_.chip_bytes);
  EXPECT_EQ(before.chip_bytes, before.usable_bytes + before.reserved_bytes);
  EXPECT_EQ(before.free_bytes, before.usable_bytes);
  jal_memory_t memory = alloc(0b0110, 100'000);
  const jal_memory_info info = info_of(memory);
  EXPECT_EQ(info.slice_mask, 0b0110u);
  EXPECT_EQ(info.bytes_per_slice, 100'000u);
  EXPECT_EQ(info.granted_per_slice, 2u * JAL_PAGE_BYTES);
  EXPECT_EQ(info.address, JAL_ADDRESS_HBM(1, info.offset));
  EXPECT_EQ(layers(0).free_bytes, before.usable_bytes / info_.slices);
  EXPECT_EQ(layers(1).used_by_me_bytes, 2u * JAL_PAGE_BYTES);
  EXPECT_EQ(layers().free_bytes, before.free_bytes - 4u * JAL_PAGE_BYTES);
  EXPECT_GE(layers().host_used_bytes, before.host_used_bytes + 2u * 100'000);
  jal_address_t address = 0;
  JAL_EXPECT_OK(jal_memory_address(memory, 2, 99'999, &address));
  EXPECT_EQ(address, JAL_ADDRESS_HBM(2, info.offset + 99'999));
  JAL_EXPECT_FAILS(jal_memory_address(memory, 0, 0, &address), JAL_ERROR_BAD_SLICE_MASK, "slice 0");
  JAL_EXPECT_FAILS(jal_memory_address(memory, 2, 100'000, &address), JAL_ERROR_BAD_ADDRESS, "100000");
  void* pointer = nullptr;
  JAL_EXPECT_FAILS(jal_memory_map(memory, &pointer), JAL_ERROR_NOT_HOST_VISIBLE, "HOST_VISIBLE");
  JAL_EXPECT_OK(jal_memory_free(memory));
  EXPECT_EQ(layers().free_bytes, before.free_bytes);
  JAL_EXPECT_FAILS(jal_memory_free(memory), JAL_ERROR_STALE_HANDLE, "destroyed before");
}

TEST_F(Memory, FullSliceIsNamedWhileOthersAreFree) {
  jal_memory_t filler = alloc(0b0010, info_.slice_bytes - JAL_PAGE_BYTES);
  jal_memory_options options{};
  options.struct_size = sizeof options;
  options.bytes_per_slice = 2 * JAL_PAGE_BYTES;
  jal_memory_t memory = nullptr;
  JAL_EXPECT_FAILS(jal_memory_alloc(device_, &options, &memory), JAL_ERROR_OUT_OF_DEVICE_MEMORY,
                   "slice 1 of device 0 has 64 KiB");
  options.slice_mask = 0b1101;
  JAL_EXPECT_OK(jal_memory_alloc(device_, &options, &memory));
  options.bytes_per_slice = info_.slice_bytes + 1;
  JAL_EXPECT_FAILS(jal_memory_alloc(device_, &options, &memory), JAL_ERROR_OUT_OF_DEVICE_MEMORY, "in all");
  JAL_EXPECT_OK(jal_memory_free(filler));
}

TEST_F(Memory, OptionsAreChecked) {
  jal_memory_options options{};
  jal_memory_t memory = nullptr;
  JAL_EXPECT_FAILS(jal_memory_alloc(device_, &options, &memory), JAL_ERROR_WRONG_STRUCT_SIZE, "jal_memory_options");
  options.struct_size = sizeof options;
  JAL_EXPECT_FAILS(jal_memory_alloc(device_, &options, &memory), JAL_ERROR_INVALID_ARGUMENT, "bytes_per_slice is 0");
  options.bytes_per_slice = 1;
  options.slice_mask = 1ull << 40;
  JAL_EXPECT_FAILS(jal_memory_alloc(device_, &options, &memory), JAL_ERROR_BAD_SLICE_MASK, "slices 0..3");
  options.slice_mask = 1;
  options.flags = 1u << 9;
  JAL_EXPECT_FAILS(jal_memory_alloc(device_, &options, &memory), JAL_ERROR_RESERVED_NOT_ZERO, "unknown bits");
  options.flags = JAL_MEMORY_HOST_VISIBLE;
  JAL_EXPECT_FAILS(jal_memory_alloc(device_, &options, &memory), JAL_ERROR_BAD_SLICE_MASK, "HOST_VISIBLE");
  options.flags = 0;
  options.reserved[0] = 1;
  JAL_EXPECT_FAILS(jal_memory_alloc(device_, &options, &memory), JAL_ERROR_RESERVED_NOT_ZERO, "reserved");
  JAL_EXPECT_FAILS(jal_memory_alloc(device_, nullptr, &memory), JAL_ERROR_INVALID_ARGUMENT, "NULL");
  options.reserved[0] = 0;
  JAL_EXPECT_FAILS(jal_memory_alloc(device_, &options, nullptr), JAL_ERROR_INVALID_ARGUMENT, "out_memory");
  jal_memory_layers bad{};
  JAL_EXPECT_FAILS(jal_memory_query(device_, 0, &bad), JAL_ERROR_WRONG_STRUCT_SIZE, "jal_memory_layers");
  bad.struct_size = sizeof bad;
  JAL_EXPECT_FAILS(jal_memory_query(device_, 64, &bad), JAL_ERROR_BAD_SLICE_MASK, "slice 64");
}

TEST_F(Memory, BlockingCopiesRoundTrip) {
  jal_memory_t memory = alloc(0b0100, 4096);
  const auto values = ramp(1024);
  std::vector<std::uint32_t> back(1024);
  const jal_address_t address = info_of(memory).address;
  JAL_EXPECT_OK(jal_copy_to_device_blocking(device_, address, values.data(), 4096, soon()));
  JAL_EXPECT_OK(jal_copy_to_host_blocking(device_, back.data(), address, 4096, soon()));
  EXPECT_EQ(back, values);
}

TEST_F(Memory, SlicesCopySpreadsAndGathersInAscendingOrder) {
  jal_memory_t memory = alloc(0b1011, 256);
  const std::uint64_t offset = info_of(memory).offset;
  const auto values = ramp(3 * 64);
  JAL_EXPECT_OK(jal_copy_to_slices_blocking(device_, 0b1011, offset, values.data(), 256, soon()));
  std::vector<std::uint32_t> part(64), all(3 * 64);
  jal_address_t third = 0;
  JAL_ASSERT_OK(jal_memory_address(memory, 3, 0, &third));
  JAL_EXPECT_OK(jal_copy_to_host_blocking(device_, part.data(), third, 256, soon()));
  EXPECT_EQ(part, ramp(64, 1 + 2 * 64));
  JAL_EXPECT_OK(jal_copy_from_slices_blocking(device_, all.data(), 0b1011, offset, 256, soon()));
  EXPECT_EQ(all, values);
  JAL_EXPECT_FAILS(jal_copy_to_slices_blocking(device_, 0, offset, values.data(), 256, soon()),
                   JAL_ERROR_BAD_SLICE_MASK, "at least one");
  JAL_EXPECT_FAILS(jal_copy_to_slices_blocking(device_, 1, 1ull << 32, values.data(), 256, soon()),
                   JAL_ERROR_BAD_ADDRESS, "below 4 GiB");
}

TEST_F(Memory, StreamCopiesAndFillsRunInOrder) {
  jal_memory_t memory = alloc(0b1111, 1024);
  const jal_memory_info info = info_of(memory);
  jal_stream_t lone = stream();
  std::vector<std::uint32_t> back(1024), values = ramp(16);
  JAL_EXPECT_OK(jal_copy_fill_slices(lone, 0b1111, info.offset, 0xabcdu, 1024));
  JAL_EXPECT_OK(jal_copy_to_device(lone, JAL_ADDRESS_HBM(1, info.offset + 64), values.data(), 64));
  JAL_EXPECT_OK(jal_copy_device(lone, JAL_ADDRESS_HBM(2, info.offset), JAL_ADDRESS_HBM(1, info.offset + 64), 64));
  JAL_EXPECT_OK(jal_copy_fill(lone, JAL_ADDRESS_HBM(3, info.offset), 5, 8));
  JAL_EXPECT_OK(jal_copy_from_slices(lone, back.data(), 0b1111, info.offset, 1024));
  JAL_EXPECT_OK(jal_stream_synchronize(lone, soon()));
  std::vector<std::uint32_t> want(1024, 0xabcd);
  for (std::uint32_t i = 0; i < 16; ++i) want[256 + 16 + i] = want[512 + i] = i + 1;
  want[768] = want[769] = 5;
  EXPECT_EQ(back, want);
  JAL_EXPECT_FAILS(jal_copy_fill(lone, info.address + 2, 5, 8), JAL_ERROR_UNALIGNED_ADDRESS, "multiples of 4");
  JAL_EXPECT_FAILS(jal_copy_to_device(lone, info.address, nullptr, 8), JAL_ERROR_INVALID_ARGUMENT, "src is NULL");
  JAL_EXPECT_FAILS(jal_copy_to_device(lone, info.address, back.data(), 0), JAL_ERROR_INVALID_ARGUMENT, "0 bytes");
}

TEST_F(Memory, BadAddressIsNamedWithTheNearestAllocationAndHarmsNoLaterCall) {
  jal_memory_t memory = alloc(1, 100);
  const jal_address_t address = info_of(memory).address;
  std::uint64_t word = 0;
  JAL_EXPECT_FAILS(jal_copy_to_host_blocking(device_, &word, address + 124, 8, soon()), JAL_ERROR_BAD_ADDRESS,
                   "nearest allocation");
  JAL_EXPECT_FAILS(jal_copy_to_host_blocking(device_, &word, JAL_ADDRESS_HBM(3, 0x10000), 8, soon()),
                   JAL_ERROR_BAD_ADDRESS, "slice 3");
  JAL_EXPECT_OK(jal_copy_to_host_blocking(device_, &word, address + 92, 8, soon()));
  EXPECT_EQ(word, 0u);  // granted memory is zeroed
}

TEST_F(Memory, HostVisibleMemoryIsReachedFromBothSides) {
  jal_memory_t host = alloc(0, 5000, JAL_MEMORY_HOST_VISIBLE);
  jal_memory_t hbm = alloc(1, 5000);
  void* pointer = nullptr;
  JAL_ASSERT_OK(jal_memory_map(host, &pointer));
  EXPECT_EQ(info_of(host).host_pointer, pointer);
  std::memset(pointer, 0x5a, 5000);
  JAL_EXPECT_OK(jal_copy_device_blocking(device_, info_of(hbm).address, info_of(host).address, 5000, soon()));
  std::vector<unsigned char> back(5000);
  JAL_EXPECT_OK(jal_copy_to_host_blocking(device_, back.data(), info_of(hbm).address, 5000, soon()));
  EXPECT_EQ(back, std::vector<unsigned char>(5000, 0x5a));
  JAL_EXPECT_OK(jal_memory_free(host));
}

TEST_F(Memory, HostBuffersKnowTheirOwn) {
  void* pointer = nullptr;
  JAL_ASSERT_OK(jal_host_alloc(device_, 100, &pointer));
  std::memset(pointer, 1, 100);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(pointer) % 64, 0u);
  int other = 0;
  JAL_EXPECT_FAILS(jal_host_free(&other), JAL_ERROR_INVALID_HANDLE, "jal_host_alloc");
  JAL_EXPECT_OK(jal_host_free(pointer));
  JAL_EXPECT_FAILS(jal_host_free(pointer), JAL_ERROR_INVALID_HANDLE, "freed before");
  JAL_EXPECT_FAILS(jal_host_alloc(device_, 0, &pointer), JAL_ERROR_INVALID_ARGUMENT, "0 bytes");
  JAL_EXPECT_FAILS(jal_host_alloc(device_, UINT64_MAX - 5, &pointer), JAL_ERROR_OUT_OF_HOST_MEMORY, "host memory");
}

TEST_F(Memory, FreeWhileWorkIsPendingIsRefused) {
  jal_memory_t memory = alloc(1, 4096);
  void* buffer = nullptr;
  JAL_ASSERT_OK(jal_host_alloc(device_, 4096, &buffer));
  jal_stream_t lone = stream();
  // A wait for an event that nobody has signalled yet keeps the copy pending.
  jal_event_t gate = nullptr;
  JAL_ASSERT_OK(jal_event_create(device_, &gate));
  jal_stream_t opener = stream();
  JAL_EXPECT_OK(jal_event_record(gate, opener));
  JAL_EXPECT_OK(jal_event_wait(gate, lone));
  JAL_EXPECT_OK(jal_copy_to_host(lone, buffer, info_of(memory).address, 4096));
  JAL_EXPECT_FAILS(jal_host_free(buffer), JAL_ERROR_MEMORY_BUSY, "synchronise");
  JAL_EXPECT_OK(jal_stream_synchronize(lone, soon()));
  JAL_EXPECT_OK(jal_host_free(buffer));
  JAL_EXPECT_OK(jal_memory_free(memory));
}

}  // namespace
}  // namespace jal::test
