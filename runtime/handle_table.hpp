// Handles: numbers that stand for objects, checked on every use and never dereferenced.
//
// What it is not: ownership; who inserts an object destroys it. Invariant: a handle names one object for ever: its
// slot's generation moves on when the object goes, so an old handle is recognised as stale for 2^32 reuses of a slot.
// Threads: any. find() takes no lock; finding an object while another thread removes it is the caller's race.
#pragma once
#include <atomic>
#include <cstdint>
#include <deque>
#include <mutex>
#include <vector>

#include "driver/base/status.hpp"

namespace jal::rt {

using drv::Result;
using drv::Status;

enum class Kind : std::uint32_t { device = 1, memory, stream, event, module, kernel };

/// "stream"; "object" for what is no kind.
const char* kind_name(Kind kind);

class HandleTable {
 public:
  /// value = generation << 28 | slot << 4 | kind; never 0. OUT_OF_HOST_MEMORY when 2^24 handles live.
  Result<std::uint64_t> insert(Kind kind, void* object);

  /// The object, or nullptr with the status in *out_status: INVALID_HANDLE, STALE_HANDLE, FORKED, each with a message.
  void* find(std::uint64_t handle, Kind kind, jal_status_t* out_status) const {
    const std::uint64_t index = handle >> kKindBits & (kSlotsMax - 1);
    const Slot* chunk = chunks_[index / kChunk].load(std::memory_order_acquire);
    if (chunk != nullptr) {
      const Slot& slot = chunk[index % kChunk];
      if (slot.word.load(std::memory_order_acquire) == handle && static_cast<Kind>(handle & kKindMask) == kind &&
          slot.epoch == process_epoch()) {
        return slot.object;
      }
    }
    *out_status = explain(handle, kind).code();
    return nullptr;
  }

  /// The handle turns stale. It must be live.
  void remove(std::uint64_t handle);

  /// Live handles of this process, any order. For shutdown.
  struct Live {
    std::uint64_t handle;
    Kind kind;
    void* object;
  };
  std::vector<Live> live() const;

  /// Counts forks on the way from the first process to this one: what is older belongs to a parent.
  static std::uint32_t process_epoch() { return g_process_epoch.load(std::memory_order_relaxed); }
  /// Around fork, so that the child finds the table whole.
  void lock_for_fork() { mutex_.lock(); }
  void unlock_after_fork() { mutex_.unlock(); }
  static void enter_child() { g_process_epoch.fetch_add(1, std::memory_order_relaxed); }

 private:
  static constexpr std::uint32_t kKindBits = 4, kSlotBits = 24;
  static constexpr std::uint64_t kKindMask = (1u << kKindBits) - 1, kSlotsMax = 1u << kSlotBits, kChunk = 4096;
  struct Slot {
    std::atomic<std::uint64_t> word{0};  // the live handle, or the last one with kind 0
    void* object = nullptr;
    std::uint32_t epoch = 0;
  };
  static std::atomic<std::uint32_t> g_process_epoch;

  Status explain(std::uint64_t handle, Kind kind) const;

  mutable std::mutex mutex_;
  std::atomic<Slot*> chunks_[kSlotsMax / kChunk] = {};
  std::uint64_t used_ = 0;
  std::deque<std::uint64_t> free_;  // oldest first: a slot rests as long as possible
};

/// The one table of the process; never destroyed.
HandleTable& handles();

}  // namespace jal::rt
