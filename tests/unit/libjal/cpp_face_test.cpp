// jal.hpp: RAII, errors as exceptions, typed values.
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <jal/jal.hpp>
#include <numeric>

namespace jal::test {
namespace {

class CppFace : public testing::Test {
 protected:
  CppFace() {
    char name[] = "/tmp/jal-cpp-XXXXXX";
    dir_ = mkdtemp(name);
    setenv("JAL_RUNTIME_DIR", dir_.c_str(), 1);
    jal_init_options options{};
    options.model = "jal-test4";
    library_.emplace(options);
  }
  ~CppFace() override {
    library_.reset();
    std::filesystem::remove_all(dir_);
  }
  std::string dir_;
  std::optional<Library> library_;
};

TEST_F(CppFace, CopiesRoundTripAndObjectsMove) {
  const Device device;
  EXPECT_EQ(Device::count(), 1u);
  EXPECT_EQ(device.info().slices, 4u);
  Memory memory = device.alloc_on_slice(3, 1024);
  Stream stream = device.stream();
  const Event done = device.event();
  std::vector<std::uint32_t> values(256), back(256);
  std::iota(values.begin(), values.end(), 0u);
  stream.set_phase(JAL_PHASE_PREFILL);
  stream.copy_to_device(memory.address(), values.data(), 1024);
  stream.copy_to_host(back.data(), memory.address(3), 1024);
  stream.record(done);
  stream.wait(done);
  stream.count_tokens(JAL_PHASE_PREFILL, 2);
  Stream moved = std::move(stream);
  EXPECT_FALSE(stream);  // NOLINT: a moved-from stream is empty
  moved.synchronize();
  EXPECT_TRUE(done.is_done());
  EXPECT_TRUE(moved.is_done());
  EXPECT_EQ(back, values);
  EXPECT_EQ(device.telemetry().phase_tokens[JAL_PHASE_PREFILL], 2u);
  EXPECT_GT(done.time_ps(), 0u);
  EXPECT_EQ(elapsed_ps(done, done), 0);
}

TEST_F(CppFace, MemoryAndStreamsGoWithTheirObjects) {
  const Device device;
  const std::uint64_t before = device.memory().free_bytes;
  {
    const Memory memory = device.alloc(0, 100);
    Stream stream = device.stream();
    stream.fill_slices(0b1111, memory.info().offset, 1, 64);
    EXPECT_EQ(device.memory().free_bytes, before - 4 * JAL_PAGE_BYTES);
  }  // the stream waits for its work, then the memory is free to go
  EXPECT_EQ(device.memory().free_bytes, before);
}

TEST_F(CppFace, ErrorsCarryStatusAndMessage) {
  const Device device;
  try {
    device.alloc(1ull << 50, 1);
    FAIL() << "slice 50 does not exist";
  } catch (const Error& error) {
    EXPECT_EQ(error.status(), JAL_ERROR_BAD_SLICE_MASK);
    EXPECT_NE(std::string(error.what()).find("slices 0..3"), std::string::npos) << error.what();
    EXPECT_EQ(std::string(error.what()).rfind("BAD_SLICE_MASK: ", 0), 0u);
  }
  EXPECT_THROW(Device(7), Error);
  Stream stream = device.stream();
  stream.fill(JAL_ADDRESS_HBM(0, 0x10000), 1, 4);
  EXPECT_THROW(stream.synchronize(), Error);
  EXPECT_EQ(stream.recover(), 0u);
  EXPECT_NO_THROW(stream.synchronize());
}

TEST_F(CppFace, TensorsBringTheirMemory) {
  const Device device;
  Tensor tensor = device.tensor(TensorInfo(JAL_DTYPE_BF16, {10, 6}).shard(0, 0b0111).engine_tiling());
  std::vector<float> values(60), back(60);
  std::iota(values.begin(), values.end(), -30.0f);
  tensor.upload(values);
  tensor.download(JAL_DTYPE_F32, back.data());
  EXPECT_EQ(back, values);
  const jal_argument by_value = argument(tensor);
  EXPECT_EQ(by_value.type, JAL_ARGUMENT_TENSOR);
  EXPECT_EQ(by_value.value.tensor, &tensor.info());
}

TEST_F(CppFace, ArgumentsTakeTheTypeOfTheirValue) {
  EXPECT_EQ(argument(1u).type, JAL_ARGUMENT_U32);
  EXPECT_EQ(argument(-1).value.i32, -1);
  EXPECT_EQ(argument(1.5f).value.f32, 1.5f);
  EXPECT_EQ(argument(std::uint64_t{9}).type, JAL_ARGUMENT_U64);
  EXPECT_EQ(argument(std::int64_t{-9}).value.i64, -9);
  EXPECT_EQ(argument(2.5).type, JAL_ARGUMENT_F64);
  EXPECT_EQ(argument(Address{5}).type, JAL_ARGUMENT_ADDRESS);
  const struct Pair { float a, b; } pair = {1, 2};
  EXPECT_EQ(argument(pair).bytes, sizeof pair);
  EXPECT_EQ(argument(pair).value.data, &pair);
}

TEST_F(CppFace, DeviceTimePassesOnRequest) {
  const Device device;
  const std::uint64_t before = device.clock_ps();
  device.idle(std::chrono::microseconds(10));
  EXPECT_GE(device.clock_ps(), before + 10'000'000);
}

}  // namespace
}  // namespace jal::test
