// Contract: handle_table.hpp.
#include "runtime/handle_table.hpp"

#include "driver/base/error_frames.hpp"

namespace jal::rt {

using drv::fail;

std::atomic<std::uint32_t> HandleTable::g_process_epoch{0};

const char* kind_name(Kind kind) {
  switch (kind) {
    case Kind::device:
      return "device";
    case Kind::memory:
      return "memory";
    case Kind::stream:
      return "stream";
    case Kind::event:
      return "event";
    case Kind::module:
      return "module";
    case Kind::kernel:
      return "kernel";
  }
  return "object";
}

HandleTable& handles() {
  static HandleTable* const table = new HandleTable;
  return *table;
}

Result<std::uint64_t> HandleTable::insert(Kind kind, void* object) {
  const std::lock_guard lock(mutex_);
  std::uint64_t index = 0;
  // A fresh slot first, until a chunk is full: slots then rest for at least a chunk's worth of reuse.
  if (free_.size() >= kChunk / 2 || used_ == kSlotsMax) {
    if (free_.empty()) {
      return fail(JAL_ERROR_OUT_OF_HOST_MEMORY, "{} objects are alive, the most there can be; destroy some", used_);
    }
    index = free_.front();
    free_.pop_front();
  } else {
    index = used_;
    if (chunks_[index / kChunk].load(std::memory_order_relaxed) == nullptr) {
      chunks_[index / kChunk].store(new Slot[kChunk], std::memory_order_release);
    }
    ++used_;
  }
  Slot& slot = chunks_[index / kChunk].load(std::memory_order_relaxed)[index % kChunk];
  const std::uint64_t generation = (slot.word.load(std::memory_order_relaxed) >> (kKindBits + kSlotBits)) + 1;
  const std::uint64_t handle =
      generation << (kKindBits + kSlotBits) | index << kKindBits | static_cast<std::uint64_t>(kind);
  slot.object = object;
  slot.epoch = process_epoch();
  // Pairs with the acquire in find().
  slot.word.store(handle, std::memory_order_release);
  return handle;
}

void HandleTable::remove(std::uint64_t handle) {
  const std::lock_guard lock(mutex_);
  const std::uint64_t index = handle >> kKindBits & (kSlotsMax - 1);
  Slot& slot = chunks_[index / kChunk].load(std::memory_order_relaxed)[index % kChunk];
  slot.word.store(handle & ~kKindMask, std::memory_order_release);
  slot.object = nullptr;
  free_.push_back(index);
}

std::vector<HandleTable::Live> HandleTable::live() const {
  const std::lock_guard lock(mutex_);
  std::vector<Live> found;
  for (std::uint64_t index = 0; index < used_; ++index) {
    const Slot& slot = chunks_[index / kChunk].load(std::memory_order_relaxed)[index % kChunk];
    const std::uint64_t word = slot.word.load(std::memory_order_relaxed);
    if ((word & kKindMask) != 0 && slot.epoch == process_epoch()) {
      found.push_back({word, static_cast<Kind>(word & kKindMask), slot.object});
    }
  }
  return found;
}

Status HandleTable::explain(std::uint64_t handle, Kind kind) const {
  const char* name = kind_name(kind);
  if (handle == 0) return fail(JAL_ERROR_INVALID_HANDLE, "the {} handle is NULL", name);
  const std::uint64_t index = handle >> kKindBits & (kSlotsMax - 1);
  const auto handle_kind = static_cast<Kind>(handle & kKindMask);
  const Slot* chunk = chunks_[index / kChunk].load(std::memory_order_acquire);
  const std::uint64_t generation = handle >> (kKindBits + kSlotBits);
  const std::uint64_t word = chunk != nullptr ? chunk[index % kChunk].word.load(std::memory_order_acquire) : 0;
  const std::uint64_t slot_generation = word >> (kKindBits + kSlotBits);
  if (generation == 0 || generation > slot_generation) {
    return fail(JAL_ERROR_INVALID_HANDLE, "{:#x} was never a handle of this process; a {} is wanted", handle, name);
  }
  if (handle_kind != kind) {
    return fail(JAL_ERROR_INVALID_HANDLE, "{:#x} is a handle of a {}; a {} is wanted", handle, kind_name(handle_kind),
                name);
  }
  if (generation < slot_generation || (word & kKindMask) == 0) {
    return fail(JAL_ERROR_STALE_HANDLE, "the {} of handle {:#x} was destroyed before", name, handle);
  }
  if (word != handle) {
    return fail(JAL_ERROR_INVALID_HANDLE, "{:#x} was never a handle of this process; a {} is wanted", handle, name);
  }
  return fail(JAL_ERROR_FORKED, "the {} of handle {:#x} was made before fork; call jal_init in the child", name,
              handle);
}

}  // namespace jal::rt
