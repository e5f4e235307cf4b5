// Modules and launch: arguments against the signature, every way a kernel fails, text, device loss.
#include <fstream>
#include <iterator>
#include <mutex>

#include "tests/unit/libjal/library_fixture.hpp"

namespace jal::test {
namespace {

constexpr std::uint64_t kAll = 0b1111;

class Launch : public LibraryTest {
 protected:
  void SetUp() override {
    LibraryTest::SetUp();
    JAL_ASSERT_OK(jal_module_load(device_, JAL_PROBES, &module_));
    stream_ = stream();
  }
  jal_kernel_t kernel(const char* name) {
    jal_kernel_t found = nullptr;
    JAL_EXPECT_OK(jal_module_kernel(module_, name, &found));
    return found;
  }
  static jal_argument u32(std::uint32_t value) { return {JAL_ARGUMENT_U32, 0, {.u32 = value}}; }
  static jal_argument f32(float value) {
    jal_argument a{};
    a.type = JAL_ARGUMENT_F32;
    a.value.f32 = value;
    return a;
  }
  static jal_argument u64(std::uint64_t value) {
    jal_argument a{};
    a.type = JAL_ARGUMENT_U64;
    a.value.u64 = value;
    return a;
  }
  static jal_argument address(std::uint64_t value) {
    jal_argument a{};
    a.type = JAL_ARGUMENT_ADDRESS;
    a.value.address = value;
    return a;
  }
  static jal_argument tensor(const jal_tensor_info& info) {
    jal_argument a{};
    a.type = JAL_ARGUMENT_TENSOR;
    a.value.tensor = &info;
    return a;
  }
  jal_status_t launch(const char* name, std::uint64_t cores, const std::vector<jal_argument>& arguments,
                      std::uint64_t tag = 0) {
    jal_launch_options options{};
    options.struct_size = sizeof options;
    options.tag = tag;
    return jal_launch(stream_, kernel(name), cores, arguments.data(), static_cast<std::uint32_t>(arguments.size()),
                      &options);
  }
  jal_status_t run(const char* name, std::uint64_t cores, const std::vector<jal_argument>& arguments,
                   std::uint64_t tag = 0) {
    const jal_status_t status = launch(name, cores, arguments, tag);
    return status != JAL_OK ? status : jal_stream_synchronize(stream_, soon());
  }
  jal_tensor_info floats(std::uint64_t count) {
    jal_tensor_info info{};
    JAL_EXPECT_OK(jal_tensor_info_init(&info, JAL_DTYPE_F32, 1, &count));
    JAL_EXPECT_OK(jal_tensor_shard(&info, 0, kAll, JAL_TENSOR_BLOCKED));
    info.offset = info_of(alloc(kAll, info.bytes_per_slice)).offset;
    return info;
  }
  void recover() { JAL_EXPECT_OK(jal_stream_recover(stream_, nullptr)); }

  jal_module_t module_ = nullptr;
  jal_stream_t stream_ = nullptr;
};

TEST_F(Launch, KernelsAreListedWithTheirSignatures) {
  std::uint32_t count = 0;
  JAL_ASSERT_OK(jal_module_kernel_count(module_, &count));
  EXPECT_EQ(count, 9u);
  jal_kernel_t first = nullptr;
  JAL_EXPECT_FAILS(jal_module_kernel_at(module_, count, &first), JAL_ERROR_INVALID_ARGUMENT, "the module has 9");
  JAL_EXPECT_FAILS(jal_module_kernel(module_, "missing", &first), JAL_ERROR_NO_KERNEL, "it has echo, forever");
  jal_kernel_info info{};
  info.struct_size = sizeof info;
  JAL_ASSERT_OK(jal_kernel_get_info(kernel("echo"), &info));
  EXPECT_STREQ(info.name, "echo");
  ASSERT_EQ(info.argument_count, 6u);
  EXPECT_EQ(info.arguments[0].type, JAL_ARGUMENT_ADDRESS);
  EXPECT_EQ(info.arguments[5].type, JAL_ARGUMENT_BYTES);
  EXPECT_EQ(info.arguments[5].bytes, 8u);
  EXPECT_EQ(kernel("echo"), kernel("echo"));
}

TEST_F(Launch, ArgumentsArriveAsTheyWerePassed) {
  const jal_memory_info out = info_of(alloc(1, 64));
  const struct {
    float a;
    std::uint32_t b;
  } pair = {2.5f, 9};
  jal_argument i32{};
  i32.type = JAL_ARGUMENT_I32;
  i32.value.i32 = -5;
  jal_argument bytes{};
  bytes.type = JAL_ARGUMENT_BYTES;
  bytes.bytes = sizeof pair;
  bytes.value.data = &pair;
  JAL_ASSERT_OK(run("echo", kAll, {address(out.address), u32(7), i32, f32(1.5f), u64(0x1234567890abcdefu), bytes}));
  std::uint32_t words[7] = {};
  JAL_ASSERT_OK(jal_copy_to_host_blocking(device_, words, out.address, sizeof words, soon()));
  EXPECT_EQ(words[0], 7u);
  EXPECT_EQ(static_cast<std::int32_t>(words[1]), -5);
  float value = 0;
  std::memcpy(&value, &words[2], 4);
  EXPECT_EQ(value, 1.5f);
  EXPECT_EQ(words[3], 0x90abcdefu);
  EXPECT_EQ(words[4], 0x12345678u);
  std::memcpy(&value, &words[5], 4);
  EXPECT_EQ(value, 2.5f);
  EXPECT_EQ(words[6], 9u);
}

TEST_F(Launch, TensorsArePassedAndComputedOn) {
  const jal_tensor_info x = floats(101), y = floats(101);
  std::vector<float> values(101), back(101);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i);
  jal_tensor_host host{};
  host.struct_size = sizeof host;
  host.dtype = JAL_DTYPE_F32;
  host.data = values.data();
  JAL_ASSERT_OK(jal_tensor_upload(device_, &x, &host, soon()));
  JAL_ASSERT_OK(run("scale", kAll, {tensor(x), tensor(y), f32(3)}));
  host.data = back.data();
  JAL_ASSERT_OK(jal_tensor_download(device_, &y, &host, soon()));
  for (std::size_t i = 0; i < values.size(); ++i) EXPECT_EQ(back[i], 3 * values[i]);
  // The packed block is the same thing.
  jal_kernel_info info{};
  info.struct_size = sizeof info;
  JAL_ASSERT_OK(jal_kernel_get_info(kernel("scale"), &info));
  std::vector<unsigned char> block(info.argument_bytes);
  const float factor = -1;
  std::memcpy(block.data() + info.arguments[0].offset, &x, sizeof x);
  std::memcpy(block.data() + info.arguments[1].offset, &y, sizeof y);
  std::memcpy(block.data() + info.arguments[2].offset, &factor, sizeof factor);
  JAL_ASSERT_OK(jal_launch_packed(stream_, kernel("scale"), kAll, block.data(), info.argument_bytes, nullptr));
  JAL_ASSERT_OK(jal_stream_synchronize(stream_, soon()));
  JAL_ASSERT_OK(jal_tensor_download(device_, &y, &host, soon()));
  EXPECT_EQ(back[100], -100.0f);
  JAL_EXPECT_FAILS(jal_launch_packed(stream_, kernel("scale"), kAll, block.data(), info.argument_bytes - 1, nullptr),
                   JAL_ERROR_BAD_ARGUMENTS, "the kernel takes");
  JAL_EXPECT_FAILS(jal_launch_packed(stream_, kernel("scale"), kAll, nullptr, info.argument_bytes, nullptr),
                   JAL_ERROR_INVALID_ARGUMENT, "NULL");
}

TEST_F(Launch, WrongArgumentsAreNamedBeforeAnythingRuns) {
  JAL_EXPECT_FAILS(launch("say", kAll, {}), JAL_ERROR_BAD_ARGUMENTS, "0 arguments, the kernel takes 1");
  JAL_EXPECT_FAILS(launch("say", kAll, {f32(1)}), JAL_ERROR_BAD_ARGUMENTS,
                   "argument 0 is a f32 of 4 bytes, the kernel takes a u32");
  JAL_EXPECT_FAILS(launch("nothing", kAll, std::vector<jal_argument>(30, u32(1))), JAL_ERROR_BAD_ARGUMENTS,
                   "30 arguments");
  jal_argument none{};
  none.type = JAL_ARGUMENT_TENSOR;
  JAL_EXPECT_FAILS(launch("scale", kAll, {none, none, f32(1)}), JAL_ERROR_BAD_ARGUMENTS, "points to nothing");
  jal_tensor_info zero{};
  JAL_EXPECT_FAILS(launch("scale", kAll, {tensor(zero), tensor(zero), f32(1)}), JAL_ERROR_BAD_TENSOR, "struct_size");
  JAL_EXPECT_FAILS(launch("nothing", 0, {}), JAL_ERROR_BAD_CORE_MASK, "cores 0..3");
  JAL_EXPECT_FAILS(launch("nothing", 1ull << 4, {}), JAL_ERROR_BAD_CORE_MASK, "0x10");
  JAL_EXPECT_FAILS(jal_launch(stream_, kernel("say"), kAll, nullptr, 1, nullptr), JAL_ERROR_INVALID_ARGUMENT, "NULL");
  JAL_EXPECT_FAILS(jal_launch(stream_, nullptr, kAll, nullptr, 0, nullptr), JAL_ERROR_INVALID_HANDLE, "kernel");
  jal_launch_options options{};
  JAL_EXPECT_FAILS(jal_launch(stream_, kernel("nothing"), kAll, nullptr, 0, &options), JAL_ERROR_WRONG_STRUCT_SIZE,
                   "launch");
  options.struct_size = sizeof options;
  options.flags = 8;
  JAL_EXPECT_FAILS(jal_launch(stream_, kernel("nothing"), kAll, nullptr, 0, &options), JAL_ERROR_RESERVED_NOT_ZERO,
                   "flags 0x8");
  std::uint64_t enqueued = 1;
  JAL_EXPECT_OK(jal_stream_progress(stream_, &enqueued, nullptr));
  EXPECT_EQ(enqueued, 0u);
}

TEST_F(Launch, BadTensorsAreFoundByTheDevice) {
  const jal_tensor_info good = floats(64);
  jal_tensor_info outside = good;
  outside.offset += 64 * JAL_PAGE_BYTES;
  JAL_EXPECT_FAILS(run("scale", kAll, {tensor(good), tensor(outside), f32(1)}), JAL_ERROR_TENSOR_RANGE,
                   "kernel scale, argument 1");
  recover();
  jal_tensor_info unaligned = good;
  unaligned.offset += 4;
  JAL_EXPECT_FAILS(run("scale", kAll, {tensor(good), tensor(unaligned), f32(1)}), JAL_ERROR_UNALIGNED_ADDRESS,
                   "multiple of 64");
  recover();
  jal_tensor_info torn = good;
  torn.factors[0].extent = 5;
  JAL_EXPECT_FAILS(run("scale", kAll, {tensor(torn), tensor(good), f32(1)}), JAL_ERROR_BAD_TENSOR, "argument 0");
  recover();
  JAL_EXPECT_OK(run("scale", kAll, {tensor(good), tensor(good), f32(1)}));
}

TEST_F(Launch, FailingKernelsAreReportedWithKernelCoreFileAndLine) {
  JAL_EXPECT_FAILS(run("stray", 0b0100, {address(JAL_ADDRESS_HBM(1, 0x10000))}, 4711), JAL_ERROR_BAD_ADDRESS,
                   "probes.cpp");
  EXPECT_NE(std::strstr(jal_last_error_message(), "kernel stray, core 2"), nullptr) << jal_last_error_message();
  EXPECT_NE(std::strstr(jal_last_error_message(), "tag 4711"), nullptr) << jal_last_error_message();
  jal_error_record record{};
  JAL_EXPECT_OK(jal_stream_get_error(stream_, &record));
  EXPECT_EQ(record.core, 2u);
  EXPECT_EQ(record.tag, 4711u);
  recover();
  JAL_EXPECT_FAILS(run("wild", kAll, {u64(0x10)}), JAL_ERROR_KERNEL_FAULT, "kernel wild");
  recover();
  JAL_EXPECT_FAILS(run("greedy", kAll, {}), JAL_ERROR_L1_OVERFLOW, "kernel greedy");
  recover();
  JAL_EXPECT_FAILS(run("lonely", kAll, {}), JAL_ERROR_KERNEL_DEADLOCK, "kernel lonely");
  recover();
  JAL_EXPECT_OK(run("nothing", kAll, {}));
}

TEST_F(Launch, CorruptModulesAreRefusedWithAReason) {
  std::ifstream in(JAL_PROBES, std::ios::binary);
  const std::string good((std::istreambuf_iterator<char>(in)), {});
  jal_module_t made = nullptr;
  const auto load = [&](const std::string& bytes) {
    return jal_module_load_bytes(device_, bytes.data(), bytes.size(), &made);
  };
  JAL_EXPECT_OK(load(good));
  JAL_EXPECT_OK(jal_module_unload(made));
  JAL_EXPECT_FAILS(load(good.substr(0, 100)), JAL_ERROR_BAD_MODULE, "truncated");
  JAL_EXPECT_FAILS(load(good.substr(0, good.size() - 1)), JAL_ERROR_BAD_MODULE, "jalcc");
  for (std::size_t at = 0; at < good.size(); at += 1 + good.size() / 97) {
    std::string flipped = good;
    flipped[at] = static_cast<char>(flipped[at] ^ 0x10);
    EXPECT_EQ(load(flipped), JAL_ERROR_BAD_MODULE) << "byte " << at;
  }
  JAL_EXPECT_FAILS(jal_module_load(device_, "/nowhere.jko", &made), JAL_ERROR_FILE_NOT_FOUND, "/nowhere.jko");
  JAL_EXPECT_FAILS(jal_module_load(device_, "/tmp", &made), JAL_ERROR_FILE_IO, "regular file");
}

TEST_F(Launch, UnloadingEndsTheKernelsHandles) {
  jal_kernel_t nothing = kernel("nothing");
  JAL_EXPECT_OK(jal_launch(stream_, nothing, kAll, nullptr, 0, nullptr));
  JAL_EXPECT_FAILS(jal_module_unload(module_), JAL_ERROR_QUEUE_BUSY, "synchronise");
  JAL_EXPECT_OK(jal_stream_synchronize(stream_, soon()));
  JAL_EXPECT_OK(jal_module_unload(module_));
  JAL_EXPECT_FAILS(jal_launch(stream_, nothing, kAll, nullptr, 0, nullptr), JAL_ERROR_STALE_HANDLE, "kernel");
  JAL_EXPECT_FAILS(jal_module_unload(module_), JAL_ERROR_STALE_HANDLE, "module");
}

TEST_F(Launch, ManyModulesReachTheLimitByName) {
  std::vector<jal_module_t> all;
  jal_module_t made = nullptr;
  jal_status_t status = JAL_OK;
  while ((status = jal_module_load(device_, JAL_PROBES, &made)) == JAL_OK && all.size() < 1000) all.push_back(made);
  EXPECT_EQ(status, JAL_ERROR_MODULE_LIMIT) << jal_last_error_message();
  for (jal_module_t one : all) JAL_EXPECT_OK(jal_module_unload(one));
  JAL_EXPECT_OK(jal_module_load(device_, JAL_PROBES, &made));
}

TEST_F(Launch, ArgumentRingIsReusedWithoutEnd) {
  jal_stream_options options{};
  options.struct_size = sizeof options;
  options.depth = 64;
  options.argument_bytes = 4096;
  jal_stream_t small = nullptr;
  JAL_ASSERT_OK(jal_stream_create(device_, &options, &small));
  const jal_tensor_info x = floats(16), y = floats(16);
  const jal_argument arguments[3] = {tensor(x), tensor(y), f32(1)};
  for (int i = 0; i < 200; ++i) JAL_ASSERT_OK(jal_launch(small, kernel("scale"), kAll, arguments, 3, nullptr));
  JAL_ASSERT_OK(jal_stream_synchronize(small, soon()));
  options.flags = JAL_STREAM_NO_WAIT;
  jal_stream_t hasty = nullptr;
  JAL_ASSERT_OK(jal_stream_create(device_, &options, &hasty));
  jal_status_t status = JAL_OK;
  for (int i = 0; i < 20 && status == JAL_OK; ++i)
    status = jal_launch(hasty, kernel("scale"), kAll, arguments, 3, nullptr);
  EXPECT_EQ(status, JAL_ERROR_ARGUMENT_RING_FULL) << jal_last_error_message();
  JAL_ASSERT_OK(jal_stream_synchronize(hasty, soon()));
  JAL_EXPECT_OK(jal_launch(hasty, kernel("scale"), kAll, arguments, 3, nullptr));
  JAL_ASSERT_OK(jal_stream_synchronize(hasty, soon()));
}

struct Said {
  std::mutex mutex;
  std::string text;
  std::uint32_t device = 99, core = 99;
};

TEST_F(Launch, PrintedTextReachesTheSink) {
  Said said;
  JAL_ASSERT_OK(jal_text_set_sink(
      [](void* user, std::uint32_t device, std::uint32_t core, const char* text, std::uint64_t bytes) {
        auto& to = *static_cast<Said*>(user);
        const std::lock_guard lock(to.mutex);
        to.text.append(text, bytes);
        to.device = device;
        to.core = core;
      },
      &said));
  JAL_ASSERT_OK(run("say", 0b1000, {u32(42)}));
  JAL_ASSERT_OK(jal_text_set_sink(nullptr, nullptr));
  EXPECT_NE(said.text.find("the number is 42"), std::string::npos) << said.text;
  EXPECT_EQ(said.device, 0u);
  EXPECT_EQ(said.core, 3u);
}

TEST_F(Launch, LaunchesShowInTelemetryAndTrace) {
  const std::string path = dir_ + "/trace.pb";
  JAL_EXPECT_FAILS(jal_trace_stop(nullptr), JAL_ERROR_INVALID_ARGUMENT, "trace");
  JAL_ASSERT_OK(jal_trace_start(path.c_str()));
  JAL_EXPECT_FAILS(jal_trace_start(path.c_str()), JAL_ERROR_BUSY, "jal_trace_stop");
  const jal_tensor_info x = floats(64);
  JAL_ASSERT_OK(run("scale", kAll, {tensor(x), tensor(x), f32(1)}));
  std::uint64_t spans = 0;
  JAL_ASSERT_OK(jal_trace_stop(&spans));
  EXPECT_GE(spans, 4u);  // a kernel on each core
  EXPECT_GT(std::filesystem::file_size(path), 100u);
  JAL_EXPECT_FAILS(jal_trace_start("/nowhere/trace"), JAL_ERROR_FILE_IO, "/nowhere/trace");
  jal_telemetry now{};
  now.struct_size = sizeof now;
  JAL_ASSERT_OK(jal_telemetry_read(device_, &now));
  EXPECT_EQ(now.dispatches, 1u);
  EXPECT_GT(now.bytes_local, 0u);
  EXPECT_EQ(now.bytes_remote, 0u);
  EXPECT_GT(now.dispatch_time_ps, 0u);
}

class LostDevice : public Launch {
 protected:
  LostDevice() { options_.kernel_deadline_ns = 50'000'000; }
};

TEST_F(LostDevice, EndlessKernelLosesTheDeviceAndEverythingSaysSo) {
  jal_memory_t memory = alloc(1, 64);
  jal_event_t mark = nullptr;
  JAL_ASSERT_OK(jal_event_create(device_, &mark));
  jal_stream_t other = stream();
  JAL_EXPECT_OK(launch("forever", kAll, {}));
  JAL_EXPECT_OK(jal_event_record(mark, stream_));
  const jal_status_t status = jal_stream_synchronize(stream_, soon());
  EXPECT_TRUE(status == JAL_ERROR_KERNEL_DEADLINE || status == JAL_ERROR_DEVICE_LOST) << jal_last_error_message();
  EXPECT_NE(std::strstr(jal_last_error_message(), "forever"), nullptr) << jal_last_error_message();
  EXPECT_NE(jal_event_query(mark), JAL_OK);
  JAL_EXPECT_FAILS(jal_stream_synchronize(other, soon()), JAL_ERROR_DEVICE_LOST, "jal_init");
  JAL_EXPECT_FAILS(jal_copy_fill(other, info_of(memory).address, 1, 4), JAL_ERROR_DEVICE_LOST, "lost");
  std::uint64_t word = 0;
  JAL_EXPECT_FAILS(jal_copy_to_host_blocking(device_, &word, info_of(memory).address, 8, soon()), JAL_ERROR_DEVICE_LOST,
                   "lost");
  jal_memory_options wanted{};
  wanted.struct_size = sizeof wanted;
  wanted.bytes_per_slice = 64;
  jal_memory_t more = nullptr;
  JAL_EXPECT_FAILS(jal_memory_alloc(device_, &wanted, &more), JAL_ERROR_DEVICE_LOST, "lost");
  JAL_EXPECT_OK(jal_memory_free(memory));
  JAL_EXPECT_OK(jal_module_unload(module_));
  close();
  open();  // a fresh instance works
  JAL_ASSERT_OK(jal_module_load(device_, JAL_PROBES, &module_));
  stream_ = stream();
  JAL_EXPECT_OK(run("nothing", kAll, {}));
}

}  // namespace
}  // namespace jal::test
