// The mailbox: queues, pages, modules, questions. See control.hpp; operations and their words are in jal/abi/session.h.
#include <string.h>

#include <bit>
#include <jal/hal/memory.hpp>

#include "firmware/control/control.hpp"
#include "firmware/control/shared_memory.hpp"

namespace jal::fw {
namespace {

/// Words of a request that its operation uses; the others must be zero, so that they can get a meaning later.
uint32_t words_of(uint32_t opcode) {
  switch (opcode) {
    case JAL_MAILBOX_CLOCK_QUERY:
      return 0;
    case JAL_MAILBOX_QUEUE_DESTROY:
    case JAL_MAILBOX_QUEUE_RECOVER:
    case JAL_MAILBOX_PAGES_FREE:
    case JAL_MAILBOX_PAGES_QUERY:
    case JAL_MAILBOX_MODULE_UNLOAD:
    case JAL_MAILBOX_EVENT_RESET:
      return 1;
    case JAL_MAILBOX_MODULE_LOAD:
      return 2;
    case JAL_MAILBOX_PAGES_ALLOC:  // the fourth is flags, of which none is defined
      return 3;
    case JAL_MAILBOX_QUEUE_CREATE:
      return 5;
    default:
      return 7;
  }
}

}  // namespace

bool Control::has_pending(const Client& client) const {
  for (uint32_t q = 0; q < JAL_QUEUES_PER_CLIENT; ++q) {
    const Queue& queue = client.queues[q];
    if (queue.state != JAL_QUEUE_STATE_RUNNING) continue;
    jal_packet packet;
    if (fetch(client, queue, packet)) return true;
  }
  return false;
}

bool Control::answer_mailbox(uint32_t client) {
  Client& owner = clients_[client];
  const uint32_t sequence = load_acquire(&owner.region->request.sequence);
  if (sequence == owner.mailbox_sequence) return false;
  jal_mailbox_half request;
  memcpy(&request, &owner.region->request, sizeof request);
  uint64_t result[7] = {};
  const int32_t status = handle_request(client, request, result);
  jal_mailbox_half& response = owner.region->response;
  response.opcode = static_cast<uint32_t>(status);
  memcpy(response.word, result, sizeof result);
  owner.mailbox_sequence = sequence;
  store_release(&response.sequence, sequence);
  return true;
}

int32_t Control::handle_request(uint32_t client, const jal_mailbox_half& request, uint64_t (&result)[7]) {
  uint64_t arg[7];
  memcpy(arg, request.word, sizeof arg);
  if (state_ == JAL_DEVICE_STATE_LOST) return JAL_ERROR_DEVICE_LOST;
  for (uint32_t word = words_of(request.opcode); word < 7; ++word) {
    if (arg[word] != 0) return JAL_ERROR_RESERVED_NOT_ZERO;
  }
  Client& owner = clients_[client];
  switch (request.opcode) {
    case JAL_MAILBOX_QUEUE_CREATE:
      return create_queue(client, arg);
    case JAL_MAILBOX_QUEUE_DESTROY: {
      if (arg[0] >= JAL_QUEUES_PER_CLIENT || owner.queues[arg[0]].state == JAL_QUEUE_STATE_FREE)
        return JAL_ERROR_INVALID_HANDLE;
      Queue& queue = owner.queues[arg[0]];
      jal_packet packet;
      if (fetch(owner, queue, packet)) return JAL_ERROR_QUEUE_BUSY;
      queue.state = JAL_QUEUE_STATE_FREE;
      store_release(&owner.region->queues[arg[0]].state, queue.state);
      log(JAL_LOG_QUEUE_DESTROYED, client, arg[0]);
      return JAL_OK;
    }
    case JAL_MAILBOX_QUEUE_RECOVER:
      return recover_queue(client, arg[0], result);
    case JAL_MAILBOX_PAGES_ALLOC:
      return alloc_pages(client, arg, result);
    case JAL_MAILBOX_PAGES_FREE:
      return free_pages(client, arg[0]);
    case JAL_MAILBOX_PAGES_QUERY:
      return query_pages(client, arg[0], result);
    case JAL_MAILBOX_MODULE_LOAD:
      return load_module(client, arg[0], arg[1], result);
    case JAL_MAILBOX_MODULE_UNLOAD:
      if (has_pending(owner)) return JAL_ERROR_QUEUE_BUSY;
      if (arg[0] > kMaxModules || !modules_.unload(board_, client, static_cast<uint32_t>(arg[0])))
        return JAL_ERROR_INVALID_HANDLE;
      return JAL_OK;
    case JAL_MAILBOX_CLOCK_QUERY:
      result[0] = clock_ps_;
      return JAL_OK;
    case JAL_MAILBOX_ECHO:
      memcpy(result, arg, sizeof result);
      return JAL_OK;
    case JAL_MAILBOX_EVENT_RESET: {
      if (arg[0] == JAL_EVENT_NONE || arg[0] >= JAL_EVENT_COUNT) return JAL_ERROR_INVALID_HANDLE;
      owner.events[arg[0]] = {};
      jal_event_mirror& mirror = owner.region->events[arg[0]];
      mirror.status = 0;
      mirror.record = 0;
      mirror.start_ps = 0;
      mirror.end_ps = 0;
      store_release(&mirror.value, static_cast<uint64_t>(0));
      return JAL_OK;
    }
    default:
      return JAL_ERROR_UNIMPLEMENTED;
  }
}

int32_t Control::create_queue(uint32_t client, const uint64_t (&arg)[7]) {
  Client& owner = clients_[client];
  const uint64_t index = arg[0], ring_offset = arg[1], depth_log2 = arg[2], argument_offset = arg[3],
                 argument_bytes = arg[4];
  if (index >= JAL_QUEUES_PER_CLIENT) return JAL_ERROR_QUEUE_LIMIT;
  if (owner.queues[index].state != JAL_QUEUE_STATE_FREE) return JAL_ERROR_BUSY;
  if (depth_log2 > 31 || (1ull << depth_log2) < JAL_QUEUE_DEPTH_MIN || (1ull << depth_log2) > JAL_QUEUE_DEPTH_MAX ||
      !std::has_single_bit(argument_bytes) || argument_bytes < JAL_ARGUMENT_BYTES_MAX) {
    return JAL_ERROR_INVALID_ARGUMENT;
  }
  if (ring_offset % 64 != 0 || argument_offset % 64 != 0) return JAL_ERROR_UNALIGNED_ADDRESS;
  // Rings lie behind the head of the region and inside it.
  const uint64_t ring_bytes = (1ull << depth_log2) * sizeof(jal_packet);
  const uint64_t size = owner.region_bytes;
  if (ring_offset < sizeof(jal_client_region) || argument_offset < sizeof(jal_client_region) || ring_offset > size ||
      ring_bytes > size - ring_offset || argument_offset > size || argument_bytes > size - argument_offset) {
    return JAL_ERROR_BAD_ADDRESS;
  }
  Queue& queue = owner.queues[index];
  const uint32_t epoch = queue.epoch;
  queue = {};
  queue.state = JAL_QUEUE_STATE_RUNNING;
  queue.depth_log2 = static_cast<uint32_t>(depth_log2);
  queue.ring_offset = ring_offset;
  queue.argument_offset = argument_offset;
  queue.argument_ring_bytes = argument_bytes;
  queue.phase = JAL_PHASE_IDLE;
  queue.epoch = epoch + 1;
  memset(reinterpret_cast<uint8_t*>(owner.region) + ring_offset, 0, ring_bytes);
  jal_queue_control& control = owner.region->queues[index];
  control = {};
  control.epoch = queue.epoch;
  store_release(&control.state, queue.state);
  log(JAL_LOG_QUEUE_CREATED, client, index, 1ull << depth_log2);
  return JAL_OK;
}

int32_t Control::recover_queue(uint32_t client, uint64_t index, uint64_t (&result)[7]) {
  Client& owner = clients_[client];
  if (index >= JAL_QUEUES_PER_CLIENT || owner.queues[index].state == JAL_QUEUE_STATE_FREE)
    return JAL_ERROR_INVALID_HANDLE;
  Queue& queue = owner.queues[index];
  uint64_t dropped = 0;
  jal_packet packet;
  const uint64_t depth = 1ull << queue.depth_log2;
  while (dropped < depth && fetch(owner, queue, packet)) {
    drop_packet(owner, static_cast<uint32_t>(index), packet, JAL_ERROR_UPSTREAM_FAILED);
    ++dropped;
  }
  queue.state = JAL_QUEUE_STATE_RUNNING;
  queue.status = JAL_OK;
  queue.record = 0;
  ++queue.epoch;
  jal_queue_control& control = owner.region->queues[index];
  control.status = 0;
  control.record = 0;
  control.epoch = queue.epoch;
  store_release(&control.state, queue.state);
  log(JAL_LOG_QUEUE_RECOVERED, client, index, dropped);
  result[0] = dropped;
  result[1] = queue.epoch;
  return JAL_OK;
}

int32_t Control::alloc_pages(uint32_t client, const uint64_t (&arg)[7], uint64_t (&result)[7]) {
  const uint64_t mask = arg[0], pages = arg[1], bytes = arg[2];
  const jal_chip_info& chip = hal::chip_info(board_);
  if (mask == 0 || (chip.slices < 64 && mask >> chip.slices != 0)) return JAL_ERROR_BAD_SLICE_MASK;
  if (pages == 0 || pages > UINT32_MAX || bytes == 0 || bytes % 64 != 0 || bytes > pages << JAL_PAGE_SHIFT ||
      pages > (bytes + JAL_PAGE_BYTES - 1) >> JAL_PAGE_SHIFT) {
    return JAL_ERROR_INVALID_ARGUMENT;
  }
  Shortage shortage;
  uint64_t id = 0;
  int32_t status = pages_.reserve(mask, static_cast<uint32_t>(pages), bytes, client, &id, &shortage);
  if (status != JAL_OK) {
    result[0] = shortage.slice;
    result[1] = shortage.largest_run;
    result[2] = shortage.free_pages;
    result[3] = shortage.best_free_pages;
    log(JAL_LOG_PAGES_REFUSED, client, pages, static_cast<uint64_t>(status), shortage.slice);
    return status;
  }
  Reservation* reservation = pages_.find(id, client);
  hal::FaultReport fault;
  status = hal::memory_map(board_, {mask, reservation->first_page, reservation->pages, bytes, client},
                           &reservation->extent, fault);
  if (status != JAL_OK) {
    pages_.release(id);
    hal::memory_budget(board_, &result[0], &result[1]);
    log(JAL_LOG_PAGES_REFUSED, client, pages, static_cast<uint64_t>(status));
    return status;
  }
  result[0] = static_cast<uint64_t>(reservation->first_page) << JAL_PAGE_SHIFT;
  result[1] = id;
  log(JAL_LOG_PAGES_GRANTED, client, pages, mask, result[0]);
  return JAL_OK;
}

int32_t Control::free_pages(uint32_t client, uint64_t id) {
  Reservation* reservation = pages_.find(id, client);
  if (reservation == nullptr) return JAL_ERROR_STALE_HANDLE;
  if (has_pending(clients_[client])) return JAL_ERROR_MEMORY_BUSY;
  hal::memory_unmap(board_, reservation->extent);
  const uint64_t pages = reservation->pages;
  pages_.release(id);
  log(JAL_LOG_PAGES_FREED, client, id, pages);
  return JAL_OK;
}

int32_t Control::query_pages(uint32_t client, uint64_t slice, uint64_t (&result)[7]) {
  if (slice >= hal::chip_info(board_).slices) return JAL_ERROR_BAD_SLICE_MASK;
  const uint32_t s = static_cast<uint32_t>(slice);
  result[0] = pages_.free_pages(s);
  result[1] = pages_.client_pages(client, s);
  result[2] = pages_.largest_run(s);
  result[3] = pages_.pages_per_slice();
  hal::memory_budget(board_, &result[4], &result[5]);
  return JAL_OK;
}

int32_t Control::load_module(uint32_t client, uint64_t address, uint64_t bytes, uint64_t (&result)[7]) {
  Client& owner = clients_[client];
  if (!JAL_ADDRESS_IS_HOST_VA(address) || (owner.features & JAL_FEATURE_HOST_VA) == 0 || bytes == 0)
    return JAL_ERROR_BAD_ADDRESS;
  const auto* file = reinterpret_cast<const uint8_t*>(address & ~JAL_ADDRESS_HOST_VA_BIT);
  hal::FaultReport fault;
  uint32_t id = 0;
  const int32_t status = modules_.load(board_, client, file, bytes, &id, fault);
  if (status != JAL_OK) {
    // The reason travels as an error record, which the client finds by its number in result[0].
    jal_packet none = {};
    result[0] = write_record(client, 0, none, status, fault);
    log(JAL_LOG_MODULE_REFUSED, client, static_cast<uint64_t>(status));
    return status;
  }
  result[0] = id;
  log(JAL_LOG_MODULE_LOADED, client, id, modules_.kernel_count(id));
  return JAL_OK;
}

}  // namespace jal::fw
