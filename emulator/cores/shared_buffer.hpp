// What a collective delivers: bytes that every member's tile aliases, freed when the last tile lets go.
//
// Invariant: a buffer is written before it is published and never after, so results of pure engine functions over it
// may be kept beside it: 64 cores that normalise or prepare the same vector compute it once on the host (each is
// charged its own modelled time). Threads: references from any worker; the pool and the memos have their locks.
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
    SharedBuffer* result;  // holds a reference
  };

  std::atomic<std::uint32_t> references{0};
  std::uint64_t identity = 0;  ///< of this filling of the buffer
  std::size_t capacity_bytes = 0;
  std::byte* data = nullptr;
  SpinLock lock;
  std::vector<Memo> memos;
};

/// Buffers of one running job, recycled by size.
class SharedPool {
 public:
  SharedPool() = default;
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

  static void hold(SharedBuffer* buffer) { buffer->references.fetch_add(1, std::memory_order_relaxed); }

  void drop(SharedBuffer* buffer) {
    if (buffer->references.fetch_sub(1, std::memory_order_acq_rel) != 1) return;
    for (const SharedBuffer::Memo& memo : buffer->memos) drop(memo.result);
    buffer->memos.clear();
    const std::lock_guard guard(lock_);
    free_.push_back(buffer);
  }

  /// A kept result with one more reference, or nullptr.
  static SharedBuffer* recall(SharedBuffer* input, const SharedBuffer::Key& key) {
    const std::lock_guard guard(input->lock);
    for (const SharedBuffer::Memo& memo : input->memos) {
      if (!(memo.key == key)) continue;
      hold(memo.result);
      return memo.result;
    }
    return nullptr;
  }
  /// Keeps it. The memo takes a reference of its own.
  static void keep(SharedBuffer* input, const SharedBuffer::Key& key, SharedBuffer* result) {
    const std::lock_guard guard(input->lock);
    for (const SharedBuffer::Memo& memo : input->memos) {
      if (memo.key == key) return;  // another worker was first; equal bits
    }
    hold(result);
    input->memos.push_back({key, result});
  }

 private:
  SpinLock lock_;
  std::atomic<std::uint64_t> identities_{1};
  std::vector<SharedBuffer*> free_, all_;
};

}  // namespace jal::emu
