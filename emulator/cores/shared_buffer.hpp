// What a collective delivers: bytes that every member's tile aliases, freed when the last tile lets go.
//
// Invariant: a buffer is written before it is published and never after, so results of pure engine functions over it
// may be kept beside it: 64 cores that normalise or prepare the same vector compute it once on the host (each is
// charged its own modelled time). Threads: any worker. An atomic counter that two CPUs take turns to change costs each
// of them 50 to 100 ns, so counts are batched: references are dropped through a worker's DropList, and a memo's are
// counted out per worker (references made in advance, minus what the workers took).
#pragma once
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <vector>

#include "emulator/cores/spin.hpp"

namespace jal::emu {

class SharedPool;

struct SharedBuffer {
  /// Which function of this buffer a memo holds.
  struct Key {
    std::uint32_t kind = 0;
    std::uint32_t offset = 0;  // of the input in this buffer
    std::uint32_t a = 0, b = 0, c = 0;
    std::uint64_t other = 0;  // identity of a second shared input, never reused; 0 = none
    std::uint32_t other_offset = 0;
    float s = 0;
    bool operator==(const Key&) const = default;
  };
  struct Memo {
    Key key;
    SharedBuffer* result = nullptr;  // holds kPrepaid references less what `taken` says
  };
  static constexpr std::uint32_t kMemos = 4;
  static constexpr std::uint32_t kPrepaid = 1u << 24;
  /// References that one worker took from each memo.
  struct alignas(64) Taken {
    std::uint32_t of[kMemos] = {};
  };

  std::atomic<std::uint32_t> references{0};
  std::uint64_t identity = 0;  ///< of this filling of the buffer
  std::uint32_t number = 0;    ///< of this buffer in its pool
  std::size_t capacity_bytes = 0;
  std::byte* data = nullptr;
  SpinLock lock;  ///< for who adds a memo
  std::atomic<std::uint32_t> memo_count{0};
  Memo memos[kMemos];
  std::vector<Taken> taken;  ///< by worker
};

/// Buffers of one running job, recycled by size.
class SharedPool {
 public:
  explicit SharedPool(std::uint32_t workers) : workers_(workers) {}
  ~SharedPool() {
    for (SharedBuffer* buffer : all_) {
      std::free(buffer->data);
      delete buffer;
    }
  }
  SharedPool(const SharedPool&) = delete;
  SharedPool& operator=(const SharedPool&) = delete;

  /// At least `bytes` bytes, 64-byte aligned, with `references` references.
  SharedBuffer* take(std::size_t bytes, std::uint32_t references) {
    SharedBuffer* found = nullptr;
    {
      const std::lock_guard guard(lock_);
      for (std::size_t i = free_.size(); i-- > 0;) {
        if (free_[i]->capacity_bytes < bytes || free_[i]->capacity_bytes > 4 * bytes + 4096) continue;
        found = free_[i];
        free_[i] = free_.back();
        free_.pop_back();
        break;
      }
      if (found == nullptr) {
        found = new SharedBuffer;
        found->taken.resize(workers_);
        found->number = static_cast<std::uint32_t>(all_.size());
        all_.push_back(found);
      }
    }
    if (found->data == nullptr) {
      found->capacity_bytes = (bytes + bytes / 4 + 4095) / 4096 * 4096;
      found->data = static_cast<std::byte*>(std::aligned_alloc(4096, found->capacity_bytes));
      if (found->data == nullptr) std::abort();
    }
    found->references.store(references, std::memory_order_relaxed);
    found->identity = identities_.fetch_add(1, std::memory_order_relaxed);
    return found;
  }

  void drop(SharedBuffer* buffer, std::uint32_t count = 1) {
    if (buffer->references.fetch_sub(count, std::memory_order_acq_rel) != count) return;
    const std::uint32_t memos = buffer->memo_count.exchange(0, std::memory_order_relaxed);
    for (std::uint32_t i = 0; i < memos; ++i) {
      std::uint32_t left = SharedBuffer::kPrepaid;
      for (SharedBuffer::Taken& taken : buffer->taken) {
        left -= taken.of[i];
        taken.of[i] = 0;
      }
      drop(buffer->memos[i].result, left);
    }
    const std::lock_guard guard(lock_);
    free_.push_back(buffer);
  }

  /// A kept result with one more reference, or nullptr.
  static SharedBuffer* recall(SharedBuffer* input, const SharedBuffer::Key& key, std::uint32_t worker) {
    const std::uint32_t count = input->memo_count.load(std::memory_order_acquire);
    for (std::uint32_t i = 0; i < count; ++i) {
      const SharedBuffer::Memo& memo = input->memos[i];
      if (!(memo.key == key)) continue;
      std::uint32_t& taken = input->taken[worker].of[i];
      if (taken >= SharedBuffer::kPrepaid / 1024) return nullptr;  // at most 1024 workers
      ++taken;
      return memo.result;
    }
    return nullptr;
  }
  /// Keeps it if there is room. The memo takes references of its own.
  static void keep(SharedBuffer* input, const SharedBuffer::Key& key, SharedBuffer* result) {
    const std::lock_guard guard(input->lock);
    const std::uint32_t count = input->memo_count.load(std::memory_order_relaxed);
    if (count == SharedBuffer::kMemos) return;
    for (std::uint32_t i = 0; i < count; ++i) {
      if (input->memos[i].key == key) return;  // another worker was first; equal bits
    }
    result->references.fetch_add(SharedBuffer::kPrepaid, std::memory_order_relaxed);
    input->memos[count] = {key, result};
    input->memo_count.store(count + 1, std::memory_order_release);
  }

 private:
  const std::uint32_t workers_;
  SpinLock lock_;
  std::atomic<std::uint64_t> identities_{1};
  std::vector<SharedBuffer*> free_, all_;
};

/// References that one worker gave up and has not yet told the buffers about: cores that run one after the other drop
/// the same few. Late drops only keep a buffer a little longer.
class DropList {
 public:
  void drop(SharedPool& pool, SharedBuffer* buffer) {
    Entry& entry = entries_[buffer->number % kEntries];
    if (entry.buffer != buffer) {
      if (entry.buffer != nullptr) pool.drop(entry.buffer, entry.count);
      entry = {buffer, 0};
    }
    ++entry.count;
  }
  void flush(SharedPool& pool) {
    for (Entry& entry : entries_) {
      if (entry.buffer != nullptr) pool.drop(entry.buffer, entry.count);
      entry = {};
    }
  }

 private:
  static constexpr std::size_t kEntries = 32;  // more than a kernel usually has in use: each has a place of its own
  struct Entry {
    SharedBuffer* buffer = nullptr;
    std::uint32_t count = 0;
  };
  Entry entries_[kEntries];
};

}  // namespace jal::emu
