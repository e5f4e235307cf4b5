// Contract: host_buffers.hpp.
#include "runtime/host_buffers.hpp"

#include <map>
#include <memory>
#include <mutex>

#include "driver/base/error_frames.hpp"
#include "runtime/memory.hpp"

namespace jal::rt {

using drv::fail;

namespace {

struct Entry {
  std::unique_ptr<Memory> memory;
  std::uint32_t epoch;  // of the process that made it
};
struct Buffers {
  std::mutex mutex;
  std::map<void*, Entry> by_address;
};
/// Never destroyed: a buffer may be given back during exit.
Buffers& buffers() {
  static Buffers* const all = new Buffers;
  return *all;
}

}  // namespace

Result<void*> HostBuffers::alloc(Device& device, std::uint64_t bytes) {
  auto memory = Memory::alloc_host(device, bytes, true, false);
  if (!memory.ok()) return memory.status();
  void* const pointer = (*memory)->host_pointer();
  const std::lock_guard lock(buffers().mutex);
  buffers().by_address[pointer] = {std::move(*memory), HandleTable::process_epoch()};
  return pointer;
}

Status HostBuffers::free(void* pointer) {
  const std::lock_guard lock(buffers().mutex);
  const auto found = buffers().by_address.find(pointer);
  if (found == buffers().by_address.end()) {
    return fail(JAL_ERROR_INVALID_HANDLE, "{} is not a buffer of jal_host_alloc, or it was freed before", pointer);
  }
  if (found->second.epoch != HandleTable::process_epoch()) {
    return fail(JAL_ERROR_FORKED, "the buffer at {} was made before fork; it is the parent's", pointer);
  }
  JAL_RETURN_IF_ERROR(found->second.memory->free());
  buffers().by_address.erase(found);
  return {};
}

void HostBuffers::release_all() {
  const std::lock_guard lock(buffers().mutex);
  std::erase_if(buffers().by_address,
                [](const auto& entry) { return entry.second.epoch == HandleTable::process_epoch(); });
}

}  // namespace jal::rt
