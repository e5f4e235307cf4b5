// JAL_SANITIZE from the application's side: a module made by jalcc, launched through libjal, reported by kernel, core,
// file and line.
#include <fstream>
#include <string>

#include "tests/unit/libjal/library_fixture.hpp"

namespace jal::test {
namespace {

/// Line of kernels/mistakes.cpp that ends in "// report: NAME".
std::uint32_t line_of(const std::string& name) {
  std::ifstream in(JAL_MISTAKES_SOURCE);
  std::string text;
  for (std::uint32_t line = 1; std::getline(in, text); ++line) {
    if (text.ends_with("// report: " + name)) return line;
  }
  ADD_FAILURE() << "no line reports " << name;
  return 0;
}

class Sanitize : public LibraryTest {
 protected:
  void SetUp() override {}  // each test opens the library itself, with its own checks
  ~Sanitize() override {
    jal_text_set_sink(nullptr, nullptr);
    unsetenv("JAL_SANITIZE");
  }
  void open_with(const char* checks) {
    if (is_open_) close();
    setenv("JAL_SANITIZE", checks, 1);
    open();
    // The report goes to stderr as well, for people; here into a string.
    JAL_ASSERT_OK(jal_text_set_sink([](void* user, std::uint32_t, std::uint32_t, const char* text,
                                       std::uint64_t bytes) { static_cast<std::string*>(user)->append(text, bytes); },
                                    &said_));
    JAL_ASSERT_OK(jal_module_load(device_, JAL_MISTAKES, &module_));
    stream_ = stream();
    x_ = info_of(alloc(0b1111, 64)).offset;
    const std::vector<float> ones(16, 1);
    for (std::uint32_t slice = 0; slice < 4; ++slice)
      JAL_ASSERT_OK(jal_copy_to_device_blocking(device_, JAL_ADDRESS_HBM(slice, x_), ones.data(), 64, soon()));
  }
  jal_status_t run(const char* name) {
    said_.clear();
    jal_kernel_t kernel = nullptr;
    JAL_EXPECT_OK(jal_module_kernel(module_, name, &kernel));
    jal_argument x{};
    x.type = JAL_ARGUMENT_ADDRESS;
    x.value.address = x_;
    const jal_status_t status = jal_launch(stream_, kernel, 0b1111, &x, 1, nullptr);
    return status != JAL_OK ? status : jal_stream_synchronize(stream_, soon());
  }
  /// The mistake is reported as a status with a message, as an error record, and as a line of text.
  void expect_report(const char* kernel, const char* mark, const std::string& words) {
    EXPECT_EQ(run(kernel), JAL_ERROR_SANITIZER) << jal_last_error_message();
    const std::string message = jal_last_error_message();
    const std::string place = "mistakes.cpp:" + std::to_string(line_of(mark));
    for (const std::string& part : {words, "kernel " + std::string(kernel), std::string("core 2"), place}) {
      EXPECT_NE(message.find(part), std::string::npos) << part << " is not in: " << message;
      EXPECT_NE(said_.find(part), std::string::npos) << part << " is not in: " << said_;
    }
    jal_error_record record{};
    JAL_EXPECT_OK(jal_stream_get_error(stream_, &record));
    EXPECT_EQ(record.status, JAL_ERROR_SANITIZER);
    EXPECT_EQ(record.core, 2u);
    JAL_EXPECT_OK(jal_stream_recover(stream_, nullptr));
  }

  jal_module_t module_ = nullptr;
  jal_stream_t stream_ = nullptr;
  std::uint64_t x_ = 0;
  std::string said_;
};

const char* const kAllChecks = "memory,init,race,locality";

TEST_F(Sanitize, EachMistakeIsReportedWithKernelCoreFileAndLine) {
  open_with(kAllChecks);
  expect_report("overrun", "memory", "memory: byte 64 was written behind tile");
  expect_report("short_tile", "short_tile", "memory: vec's a needs 64 bytes, its tile has 32");
  expect_report("unwritten", "init", "init: store: byte 32");
  expect_report("hasty", "race", "race: view is read before the DMA has written it");
  expect_report("distant", "locality", "locality: load of 64 bytes in slice 0");
  JAL_EXPECT_OK(run("clean"));
  EXPECT_EQ(said_, "");
}

TEST_F(Sanitize, OneCheckAloneReportsItsOwnKind) {
  const struct {
    const char* check;
    const char* kernel;
  } kinds[] = {{"memory", "overrun"}, {"init", "unwritten"}, {"race", "hasty"}, {"locality", "distant"}};
  for (const auto& on : kinds) {
    open_with(on.check);
    for (const auto& kind : kinds) {
      const bool is_reported = std::strcmp(kind.check, on.check) == 0;
      EXPECT_EQ(run(kind.kernel), is_reported ? JAL_ERROR_SANITIZER : JAL_OK)
          << on.check << " and " << kind.kernel << ": " << jal_last_error_message();
      if (is_reported) {
        JAL_EXPECT_OK(jal_stream_recover(stream_, nullptr));
      }
    }
  }
}

TEST_F(Sanitize, ResultsAndModelledTimeStayTheSame) {
  float sum[2] = {};
  std::uint64_t time_ps[2] = {};
  for (const int with : {0, 1}) {
    open_with(with != 0 ? kAllChecks : "");
    JAL_ASSERT_OK(run("clean"));
    JAL_ASSERT_OK(jal_copy_to_host_blocking(device_, &sum[with], JAL_ADDRESS_HBM(3, x_), 4, soon()));
    jal_telemetry now{};
    now.struct_size = sizeof now;
    JAL_ASSERT_OK(jal_telemetry_read(device_, &now));
    time_ps[with] = now.dispatch_time_ps;
  }
  EXPECT_EQ(sum[0], 8.0f);  // 4 cores, each 2 * 1
  EXPECT_EQ(sum[1], sum[0]);
  EXPECT_EQ(time_ps[1], time_ps[0]);
  EXPECT_GT(time_ps[0], 0u);
}

TEST_F(Sanitize, AnUnknownCheckIsRefusedByName) {
  setenv("JAL_SANITIZE", "memory,speed", 1);
  JAL_EXPECT_FAILS(jal_init(&options_), JAL_ERROR_INVALID_ARGUMENT, "JAL_SANITIZE");
}

}  // namespace
}  // namespace jal::test
