// Statuses and names as text.
#include <set>

#include "tests/unit/libjal/library_fixture.hpp"

namespace jal::test {
namespace {

TEST(StatusText, EveryStatusIsFoundByItsNameInAnyCase) {
  std::set<jal_status_t> seen;
  jal_status_t status = JAL_OK;
  for (std::uint32_t i = 0; jal_status_at(i, &status) == JAL_OK; ++i) {
    EXPECT_TRUE(seen.insert(status).second);
    jal_status_t found = -1;
    JAL_EXPECT_OK(jal_status_from_name(jal_status_name(status), &found));
    EXPECT_EQ(found, status);
    EXPECT_STRNE(jal_status_text(status), "");
    EXPECT_STRNE(jal_status_advice(status), "");
  }
  EXPECT_GT(seen.size(), 50u);
  EXPECT_TRUE(seen.count(JAL_ERROR_OUT_OF_DEVICE_MEMORY));
  JAL_EXPECT_OK(jal_status_from_name("jal_error_busy", &status));
  EXPECT_EQ(status, JAL_ERROR_BUSY);
  JAL_EXPECT_FAILS(jal_status_from_name("no such", &status), JAL_ERROR_INVALID_ARGUMENT, "no such");
  EXPECT_EQ(status, JAL_ERROR_BUSY);
  EXPECT_STREQ(jal_status_name(12345), "UNKNOWN");
}

TEST(Names, KnownValuesHaveTextsAndOthersAreUnknown) {
  EXPECT_STREQ(jal_phase_name(JAL_PHASE_VERIFY_DECODE), "verify_decode");
  EXPECT_STREQ(jal_power_unit_name(JAL_UNIT_HBM), "hbm");
  EXPECT_STREQ(jal_power_state_name(JAL_UNIT_STATE_CLOCK_GATED), "clkgate");
  EXPECT_STREQ(jal_power_scope_name(JAL_SCOPE_PACKAGE), "package");
  EXPECT_STREQ(jal_figure_kind_name(JAL_FIGURE_MODELLED), "modelled");
  EXPECT_STREQ(jal_clock_kind_name(JAL_CLOCK_VIRTUAL), "virtual");
  EXPECT_STREQ(jal_dtype_name(JAL_DTYPE_MXFP4), "mxfp4");
  for (const auto name : {jal_phase_name, jal_power_unit_name, jal_power_state_name, jal_power_scope_name,
                          jal_figure_kind_name, jal_clock_kind_name, jal_dtype_name}) {
    EXPECT_STREQ(name(1000), "unknown");
  }
}

TEST(NotInitialised, CallsSayWhatToCallFirst) {
  std::uint32_t count = 0;
  jal_device_t device = nullptr;
  const char* path = nullptr;
  JAL_EXPECT_FAILS(jal_device_count(&count), JAL_ERROR_NOT_INITIALISED, "jal_init");
  JAL_EXPECT_FAILS(jal_device_get(0, &device), JAL_ERROR_NOT_INITIALISED, "jal_init");
  JAL_EXPECT_FAILS(jal_telemetry_path(&path), JAL_ERROR_NOT_INITIALISED, "jal_init");
  JAL_EXPECT_FAILS(jal_trace_start("x"), JAL_ERROR_NOT_INITIALISED, "jal_init");
  JAL_EXPECT_FAILS(jal_text_set_sink(nullptr, nullptr), JAL_ERROR_NOT_INITIALISED, "jal_init");
  JAL_EXPECT_FAILS(jal_shutdown(), JAL_ERROR_NOT_INITIALISED, "jal_init");
}

TEST(NotInitialised, MissingEmulatorNamesEveryPlaceItWasLookedFor) {
  setenv("JAL_EMULATOR", "/nowhere/libjal-emulator.so", 1);
  JAL_EXPECT_FAILS(jal_init(nullptr), JAL_ERROR_NO_INSTANCE, "/nowhere/libjal-emulator.so");
  unsetenv("JAL_EMULATOR");
}

TEST(Clock, DeadlinesSaturate) {
  EXPECT_EQ(jal_clock_deadline(UINT64_MAX), UINT64_MAX);
  EXPECT_GT(jal_clock_deadline(1'000'000'000), jal_clock_now_ns());
}

}  // namespace
}  // namespace jal::test
