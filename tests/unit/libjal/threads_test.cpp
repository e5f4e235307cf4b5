// Several threads on one device: their own streams, blocking calls, allocations, queries.
#include <atomic>
#include <thread>

#include "tests/unit/libjal/library_fixture.hpp"

namespace jal::test {
namespace {

class Threads : public LibraryTest {};

TEST_F(Threads, EachThreadsWorkStaysItsOwn) {
  constexpr int kThreads = 4, kRounds = 50;
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (std::uint32_t t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      jal_stream_t mine = nullptr;
      jal_event_t mark = nullptr;
      jal_memory_options options{};
      options.struct_size = sizeof options;
      options.slice_mask = 1ull << t;
      options.bytes_per_slice = 4096;
      if (jal_stream_create(device_, nullptr, &mine) != JAL_OK || jal_event_create(device_, &mark) != JAL_OK) ++wrong;
      for (std::uint32_t round = 0; round < kRounds; ++round) {
        jal_memory_t memory = nullptr;
        jal_memory_info info{};
        info.struct_size = sizeof info;
        if (jal_memory_alloc(device_, &options, &memory) != JAL_OK) ++wrong;
        if (jal_memory_get_info(memory, &info) != JAL_OK) ++wrong;
        std::uint32_t words[16] = {}, blocking[16] = {};
        if (jal_copy_fill(mine, info.address, t * 1000 + round, 64) != JAL_OK) ++wrong;
        if (jal_copy_to_host(mine, words, info.address, 64) != JAL_OK) ++wrong;
        if (jal_event_record(mark, mine) != JAL_OK) ++wrong;
        if ((round % 2 == 0 ? jal_event_synchronize(mark, soon()) : jal_stream_synchronize(mine, soon())) != JAL_OK)
          ++wrong;
        if (jal_copy_to_host_blocking(device_, blocking, info.address, 64, soon()) != JAL_OK) ++wrong;
        for (int i = 0; i < 16; ++i) {
          if (words[i] != t * 1000 + round || blocking[i] != words[i]) ++wrong;
        }
        // Others' pending work may forbid it for a moment.
        jal_status_t freed = JAL_ERROR_MEMORY_BUSY;
        for (int tries = 0; tries < 10000 && freed == JAL_ERROR_MEMORY_BUSY; ++tries) freed = jal_memory_free(memory);
        if (freed != JAL_OK) ++wrong;
      }
      if (jal_event_destroy(mark) != JAL_OK || jal_stream_destroy(mine) != JAL_OK) ++wrong;
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong.load(), 0);
  EXPECT_EQ(layers().used_by_me_bytes, 0u);
}

TEST_F(Threads, OneThreadWaitsWhileAnotherEnqueues) {
  jal_memory_t memory = alloc(1, 64);
  const jal_address_t address = info_of(memory).address;
  jal_stream_t shared = stream();
  std::atomic<bool> is_over{false};
  std::atomic<int> wrong{0};
  std::thread watcher([&] {
    while (!is_over) {
      const jal_status_t status = jal_stream_query(shared);
      if (status != JAL_OK && status != JAL_ERROR_NOT_READY) ++wrong;
      std::uint64_t enqueued = 0, completed = 0;
      if (jal_stream_progress(shared, &enqueued, &completed) != JAL_OK || completed > enqueued) ++wrong;
      if (jal_stream_synchronize(shared, soon()) != JAL_OK) ++wrong;
    }
  });
  for (std::uint32_t i = 0; i < 3000; ++i) {
    if (jal_copy_fill(shared, address, i, 4) != JAL_OK) ++wrong;
  }
  is_over = true;
  watcher.join();
  JAL_EXPECT_OK(jal_stream_synchronize(shared, soon()));
  std::uint32_t last = 0;
  JAL_EXPECT_OK(jal_copy_to_host_blocking(device_, &last, address, 4, soon()));
  EXPECT_EQ(last, 2999u);
  EXPECT_EQ(wrong.load(), 0);
}

TEST_F(Threads, HandlesAreMadeAndDestroyedConcurrently) {
  std::vector<std::thread> threads;
  std::atomic<int> wrong{0};
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 500; ++i) {
        jal_event_t one = nullptr;
        if (jal_event_create(device_, &one) != JAL_OK) ++wrong;
        if (jal_event_query(one) != JAL_ERROR_EVENT_NOT_RECORDED) ++wrong;
        if (jal_event_destroy(one) != JAL_OK) ++wrong;
        if (jal_event_destroy(one) != JAL_ERROR_STALE_HANDLE) ++wrong;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong.load(), 0);
}

}  // namespace
}  // namespace jal::test
