// Streams and events: order, room, failure, recovery, time.
#include "tests/unit/libjal/library_fixture.hpp"

namespace jal::test {
namespace {

class Streams : public LibraryTest {
 protected:
  jal_event_t event() {
    jal_event_t made = nullptr;
    JAL_EXPECT_OK(jal_event_create(device_, &made));
    return made;
  }
};

TEST_F(Streams, QueryDrivesTheDeviceUntilEverythingIsDone) {
  jal_memory_t memory = alloc(1, 4096);
  jal_stream_t lone = stream();
  JAL_EXPECT_OK(jal_stream_query(lone));  // nothing enqueued: done
  for (std::uint32_t i = 0; i < 3; ++i) JAL_EXPECT_OK(jal_copy_fill(lone, info_of(memory).address, i, 4096));
  std::uint64_t enqueued = 0, completed = 0;
  JAL_EXPECT_OK(jal_stream_progress(lone, &enqueued, &completed));
  EXPECT_EQ(enqueued, 3u);
  EXPECT_EQ(completed, 0u);
  int rounds = 0;
  while (jal_stream_query(lone) == JAL_ERROR_NOT_READY && rounds < 100) ++rounds;
  EXPECT_GE(rounds, 2);  // at most one long unit of work per query
  EXPECT_LT(rounds, 100);
  JAL_EXPECT_OK(jal_stream_progress(lone, nullptr, &completed));
  EXPECT_EQ(completed, 3u);
}

TEST_F(Streams, FullRingWaitsForRoomUnlessToldNotTo) {
  jal_memory_t memory = alloc(1, 64);
  const jal_address_t address = info_of(memory).address;
  jal_stream_t patient = stream(0, 16);
  for (std::uint32_t i = 0; i < 100; ++i) JAL_ASSERT_OK(jal_copy_fill(patient, address, i, 4));
  JAL_EXPECT_OK(jal_stream_synchronize(patient, soon()));
  jal_stream_t hasty = stream(JAL_STREAM_NO_WAIT, 16);
  // After a wait the first packet may bring one more, which lets the queue's time catch up.
  for (std::uint32_t i = 0; i < 15; ++i) JAL_ASSERT_OK(jal_copy_fill(hasty, address, i, 4));
  (void)jal_copy_fill(hasty, address, 1, 4);
  JAL_EXPECT_FAILS(jal_copy_fill(hasty, address, 1, 4), JAL_ERROR_QUEUE_FULL, "holds 16 packets");
  JAL_EXPECT_FAILS(jal_stream_destroy(hasty), JAL_ERROR_QUEUE_BUSY, "16 packets pending");
  JAL_EXPECT_OK(jal_stream_synchronize(hasty, soon()));
  JAL_EXPECT_OK(jal_stream_destroy(hasty));
}

TEST_F(Streams, OptionsAndLimitsAreChecked) {
  jal_stream_options options{};
  options.struct_size = sizeof options;
  jal_stream_t made = nullptr;
  options.depth = 17;
  JAL_EXPECT_FAILS(jal_stream_create(device_, &options, &made), JAL_ERROR_INVALID_ARGUMENT, "power of two");
  options.depth = 8192;
  JAL_EXPECT_FAILS(jal_stream_create(device_, &options, &made), JAL_ERROR_INVALID_ARGUMENT, "4096");
  options.depth = 16;
  options.argument_bytes = 100;
  JAL_EXPECT_FAILS(jal_stream_create(device_, &options, &made), JAL_ERROR_INVALID_ARGUMENT, "argument ring");
  options.argument_bytes = 4096;
  std::vector<jal_stream_t> all;
  while (jal_stream_create(device_, &options, &made) == JAL_OK) all.push_back(made);
  EXPECT_EQ(jal_last_error_status(), JAL_ERROR_QUEUE_LIMIT);
  EXPECT_GE(all.size(), JAL_QUEUES_PER_CLIENT - 1);
  for (jal_stream_t one : all) JAL_EXPECT_OK(jal_stream_destroy(one));
  JAL_EXPECT_OK(jal_stream_create(device_, &options, &made));
}

TEST_F(Streams, FailurePoisonsUntilRecovered) {
  jal_memory_t memory = alloc(1, 64);
  const jal_address_t address = info_of(memory).address;
  jal_stream_t lone = stream();
  jal_event_t after = event();
  jal_error_record record{};
  EXPECT_EQ(jal_stream_get_error(lone, &record), JAL_ERROR_NOT_READY);
  JAL_EXPECT_OK(jal_copy_fill(lone, address, 1, 4));
  JAL_EXPECT_OK(jal_copy_fill(lone, address + JAL_PAGE_BYTES, 2, 4));  // outside
  JAL_EXPECT_OK(jal_copy_fill(lone, address, 3, 4));                   // dropped
  JAL_EXPECT_OK(jal_event_record(after, lone));
  JAL_EXPECT_FAILS(jal_stream_synchronize(lone, soon()), JAL_ERROR_BAD_ADDRESS, "fill packet 1");
  JAL_EXPECT_FAILS(jal_event_synchronize(after, soon()), JAL_ERROR_UPSTREAM_FAILED, "fill packet 1");
  JAL_ASSERT_OK(jal_stream_get_error(lone, &record));
  EXPECT_EQ(record.status, JAL_ERROR_BAD_ADDRESS);
  EXPECT_EQ(record.packet_index, 1u);
  EXPECT_EQ(record.address, address + JAL_PAGE_BYTES);
  JAL_EXPECT_FAILS(jal_copy_fill(lone, address, 4, 4), JAL_ERROR_QUEUE_POISONED, "jal_stream_recover");
  JAL_EXPECT_FAILS(jal_stream_query(lone), JAL_ERROR_BAD_ADDRESS, "fill");
  JAL_EXPECT_OK(jal_stream_recover(lone, nullptr));
  JAL_EXPECT_OK(jal_copy_fill(lone, address + 4, 5, 4));
  JAL_EXPECT_OK(jal_event_record(after, lone));  // mends the event
  JAL_EXPECT_OK(jal_stream_synchronize(lone, soon()));
  JAL_EXPECT_OK(jal_event_query(after));
  std::uint32_t back[2] = {};
  JAL_EXPECT_OK(jal_copy_to_host_blocking(device_, back, address, 8, soon()));
  EXPECT_EQ(back[0], 1u);
  EXPECT_EQ(back[1], 5u);
}

TEST_F(Streams, RecoverDropsWhatIsQueued) {
  jal_memory_t memory = alloc(1, 64);
  jal_stream_t lone = stream();
  for (int i = 0; i < 5; ++i) JAL_EXPECT_OK(jal_copy_fill(lone, info_of(memory).address, 1, 4));
  std::uint64_t dropped = 0;
  JAL_EXPECT_OK(jal_stream_recover(lone, &dropped));
  EXPECT_EQ(dropped, 5u);
  JAL_EXPECT_OK(jal_stream_query(lone));
}

TEST_F(Streams, EventsOrderStreamsAndTellDeviceTime) {
  jal_memory_t memory = alloc(1, 1 << 20);
  const jal_address_t address = info_of(memory).address;
  jal_stream_t first = stream(), second = stream();
  jal_event_t begin = event(), middle = event(), end = event();
  JAL_EXPECT_FAILS(jal_event_query(begin), JAL_ERROR_EVENT_NOT_RECORDED, "never recorded");
  JAL_EXPECT_FAILS(jal_event_wait(begin, first), JAL_ERROR_EVENT_NOT_RECORDED, "never recorded");
  std::uint32_t value = 0;
  JAL_EXPECT_OK(jal_event_record(begin, first));
  JAL_EXPECT_OK(jal_copy_fill(first, address, 42, 1 << 20));
  JAL_EXPECT_OK(jal_event_record(middle, first));
  JAL_EXPECT_OK(jal_event_wait(middle, second));
  JAL_EXPECT_OK(jal_copy_to_host(second, &value, address + (1 << 20) - 4, 4));
  JAL_EXPECT_OK(jal_event_record(end, second));
  std::uint64_t ps = 0;
  JAL_EXPECT_FAILS(jal_event_time_ps(end, &ps), JAL_ERROR_NOT_READY, "not reached");
  JAL_EXPECT_OK(jal_event_synchronize(end, soon()));
  EXPECT_EQ(value, 42u);
  std::int64_t fill_ps = 0, copy_ps = 0, back_ps = 0;
  std::uint32_t kind = 9;
  JAL_EXPECT_OK(jal_event_elapsed_ps(begin, middle, &fill_ps, &kind));
  EXPECT_EQ(kind, JAL_CLOCK_VIRTUAL);
  JAL_EXPECT_OK(jal_event_elapsed_ps(middle, end, &copy_ps, nullptr));
  JAL_EXPECT_OK(jal_event_elapsed_ps(end, begin, &back_ps, nullptr));
  EXPECT_GT(fill_ps, 0);
  EXPECT_GT(copy_ps, 0);
  EXPECT_EQ(back_ps, -(fill_ps + copy_ps));
}

TEST_F(Streams, EventRecordedAgainOnAnotherStreamKeepsItsOrder) {
  jal_memory_t memory = alloc(1, 4096);
  jal_stream_t first = stream(), second = stream();
  jal_event_t mark = event();
  for (int round = 0; round < 3; ++round) {
    JAL_EXPECT_OK(jal_copy_fill(first, info_of(memory).address, 1, 4096));
    JAL_EXPECT_OK(jal_event_record(mark, first));
    JAL_EXPECT_OK(jal_event_record(mark, second));
  }
  JAL_EXPECT_OK(jal_event_synchronize(mark, soon()));
  JAL_EXPECT_OK(jal_stream_synchronize(first, soon()));
  JAL_EXPECT_OK(jal_stream_synchronize(second, soon()));
}

TEST_F(Streams, PassedDeadlineIsATimeoutAndTheWorkGoesOn) {
  jal_memory_t memory = alloc(1, 4096);
  jal_stream_t lone = stream();
  jal_event_t mark = event();
  for (std::uint32_t i = 0; i < 3; ++i) JAL_EXPECT_OK(jal_copy_fill(lone, info_of(memory).address, i, 4096));
  JAL_EXPECT_OK(jal_event_record(mark, lone));
  const std::uint64_t past = jal_clock_now_ns();
  JAL_EXPECT_FAILS(jal_stream_synchronize(lone, past), JAL_ERROR_TIMEOUT, "of 4 packets done");
  JAL_EXPECT_FAILS(jal_event_synchronize(mark, past), JAL_ERROR_TIMEOUT, "goes on");
  JAL_EXPECT_OK(jal_stream_synchronize(lone, soon()));
  JAL_EXPECT_OK(jal_stream_synchronize(lone, past));  // what is done meets any deadline
  JAL_EXPECT_OK(jal_event_synchronize(mark, past));
}

TEST_F(Streams, DestroyedEventsAreReusedWithoutEnd) {
  jal_stream_t lone = stream();
  for (int i = 0; i < 6000; ++i) {
    jal_event_t one = event();
    ASSERT_EQ(jal_event_record(one, lone), JAL_OK) << jal_last_error_message();
    ASSERT_EQ(jal_event_destroy(one), JAL_OK);
  }
  JAL_EXPECT_OK(jal_stream_synchronize(lone, soon()));
}

TEST_F(Streams, EventLimitIsNamed) {
  std::vector<jal_event_t> all;
  jal_event_t made = nullptr;
  while (jal_event_create(device_, &made) == JAL_OK) all.push_back(made);
  EXPECT_EQ(jal_last_error_status(), JAL_ERROR_EVENT_LIMIT);
  EXPECT_EQ(all.size(), JAL_EVENT_COUNT - 1);
  for (jal_event_t one : all) ASSERT_EQ(jal_event_destroy(one), JAL_OK);
}

TEST_F(Streams, PhasesAndTokensReachTelemetry) {
  jal_stream_t lone = stream();
  jal_memory_t memory = alloc(1, 1 << 20);
  JAL_EXPECT_OK(jal_stream_set_phase(lone, JAL_PHASE_PREFILL));
  JAL_EXPECT_OK(jal_copy_fill(lone, info_of(memory).address, 1, 1 << 20));
  JAL_EXPECT_OK(jal_stream_count_tokens(lone, JAL_PHASE_PREFILL, 12));
  JAL_EXPECT_OK(jal_stream_count_tokens(lone, JAL_PHASE_VERIFY_DECODE, 3));
  JAL_EXPECT_FAILS(jal_stream_set_phase(lone, 4), JAL_ERROR_INVALID_ARGUMENT, "below 4");
  JAL_EXPECT_OK(jal_stream_synchronize(lone, soon()));
  jal_telemetry now{};
  JAL_EXPECT_FAILS(jal_telemetry_read(device_, &now), JAL_ERROR_WRONG_STRUCT_SIZE, "jal_telemetry");
  now.struct_size = sizeof now;
  JAL_ASSERT_OK(jal_telemetry_read(device_, &now));
  EXPECT_EQ(now.state, JAL_DEVICE_STATE_OK);
  EXPECT_EQ(now.figure_kind, static_cast<std::uint32_t>(JAL_FIGURE_MODELLED));
  EXPECT_EQ(now.phase_tokens[JAL_PHASE_PREFILL], 12u);
  EXPECT_EQ(now.phase_tokens[JAL_PHASE_VERIFY_DECODE], 3u);
  EXPECT_GT(now.phase_time_ps[JAL_PHASE_PREFILL], 0u);
  EXPECT_GT(now.energy_nj, 0u);
  std::uint64_t sum = 0;
  for (const std::uint64_t energy : now.unit_energy_nj) sum += energy;
  EXPECT_EQ(sum, now.energy_nj);
  EXPECT_EQ(now.hbm_used, 1u << 20);
  EXPECT_GE(now.packets, 4u);
}

TEST_F(Streams, HandlesOfAnotherKindOrNobodyAreRefused) {
  jal_stream_t lone = stream();
  jal_event_t mark = event();
  JAL_EXPECT_FAILS(jal_stream_query(nullptr), JAL_ERROR_INVALID_HANDLE, "NULL");
  JAL_EXPECT_FAILS(jal_stream_query(reinterpret_cast<jal_stream_t>(mark)), JAL_ERROR_INVALID_HANDLE,
                   "is a handle of a event");
  JAL_EXPECT_FAILS(jal_stream_query(reinterpret_cast<jal_stream_t>(&mark)), JAL_ERROR_INVALID_HANDLE, "never");
  JAL_EXPECT_FAILS(jal_stream_query(reinterpret_cast<jal_stream_t>(std::uintptr_t{42})), JAL_ERROR_INVALID_HANDLE,
                   "never");
  JAL_EXPECT_FAILS(jal_event_record(mark, reinterpret_cast<jal_stream_t>(std::uintptr_t{7})), JAL_ERROR_INVALID_HANDLE,
                   "stream");
  JAL_EXPECT_OK(jal_stream_destroy(lone));
  JAL_EXPECT_FAILS(jal_stream_destroy(lone), JAL_ERROR_STALE_HANDLE, "destroyed before");
  JAL_EXPECT_FAILS(jal_event_record(mark, lone), JAL_ERROR_STALE_HANDLE, "stream");
}

}  // namespace
}  // namespace jal::test
