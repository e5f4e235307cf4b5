// The command processor: one packet of one queue at a time. See control.hpp.
//
// Order of a packet: fetch (copy) -> check header -> wait -> check operands -> run -> signal -> retire. A check that
// fails poisons the queue; what is queued behind is dropped by the next steps, each with its signal poisoned.
#include <string.h>

#include <bit>
#include <jal/hal/clock.hpp>
#include <jal/hal/dma.hpp>
#include <jal/hal/power.hpp>

#include "firmware/control/control.hpp"
#include "firmware/control/shared_memory.hpp"
#include "firmware/control/tensor_check.hpp"

namespace jal::fw {
namespace {

constexpr uint64_t kMaxIdleNs = 3600ull * 1000000000ull;
constexpr uint64_t max_of(uint64_t a, uint64_t b) { return a > b ? a : b; }

}  // namespace

int32_t Control::check_header(const Client& client, const jal_packet& packet, Text& why) const {
  const uint32_t type = JAL_PACKET_TYPE(packet.header);
  const uint32_t flags = JAL_PACKET_FLAGS(packet.header);
  if ((packet.header & JAL_PACKET_RESERVED_MASK) != 0 || (flags & ~JAL_PACKET_FLAG_MASK) != 0) {
    why << "header ";
    why.hex(packet.header) << ": reserved bits or unknown flags are set";
    return JAL_ERROR_BAD_PACKET;
  }
  if (packet.wait_event >= JAL_EVENT_COUNT || packet.signal_event >= JAL_EVENT_COUNT) {
    why << "events " << packet.wait_event << " and " << packet.signal_event << ": the limit is " << JAL_EVENT_COUNT - 1;
    return JAL_ERROR_BAD_PACKET;
  }
  if ((type == JAL_PACKET_EVENT_SIGNAL || type == JAL_PACKET_TIMESTAMP) && packet.signal_event == JAL_EVENT_NONE) {
    why << "an event packet without an event";
    return JAL_ERROR_BAD_PACKET;
  }
  if (type == JAL_PACKET_EVENT_WAIT && packet.wait_event == JAL_EVENT_NONE) {
    why << "a wait packet without an event";
    return JAL_ERROR_BAD_PACKET;
  }
  if (packet.signal_event != JAL_EVENT_NONE && packet.signal_value == JAL_EVENT_POISONED) {
    why << "event " << packet.signal_event << ": the value ";
    why.hex(packet.signal_value) << " means poisoned and cannot be signalled";
    return JAL_ERROR_BAD_PACKET;
  }
  if (packet.signal_event != JAL_EVENT_NONE && packet.signal_value <= client.events[packet.signal_event].value) {
    const jal_event_mirror& event = client.events[packet.signal_event];
    if (event.value == JAL_EVENT_POISONED) {
      why << "event " << packet.signal_event << " is poisoned by record " << event.record << "; reset it";
      return JAL_ERROR_UPSTREAM_FAILED;
    }
    why << "event " << packet.signal_event << " stands at " << event.value << ", the packet would signal "
        << packet.signal_value;
    return JAL_ERROR_EVENT_BACKWARDS;
  }
  return JAL_OK;
}

Control::Progress Control::run_queue(uint32_t client, uint32_t index) {
  Client& owner = clients_[client];
  Queue& queue = owner.queues[index];
  jal_packet packet;
  if (!fetch(owner, queue, packet)) return Progress::empty;
  if (queue.state == JAL_QUEUE_STATE_POISONED) {
    drop_packet(owner, index, packet, JAL_ERROR_UPSTREAM_FAILED);
    return Progress::done;
  }
  hal::FaultReport fault;
  Outcome outcome;
  Text why(fault.text, sizeof fault.text);
  int32_t status = check_header(owner, packet, why);
  if (status == JAL_OK && packet.wait_event != JAL_EVENT_NONE) {
    const jal_event_mirror& event = owner.events[packet.wait_event];
    if (event.value == JAL_EVENT_POISONED) {
      why << "event " << packet.wait_event << " was poisoned by record " << event.record << " with status "
          << event.status;
      status = JAL_ERROR_UPSTREAM_FAILED;
    } else if (event.value < packet.wait_value) {
      return Progress::blocked;
    }
  }
  if (status == JAL_OK) {
    const hal::FirmwareCosts& costs = hal::firmware_costs(board_);
    const uint32_t flags = JAL_PACKET_FLAGS(packet.header);
    uint64_t start = (flags & JAL_PACKET_FLAG_OVERLAP) != 0 ? queue.last_start_ps : queue.time_ps;
    if ((flags & JAL_PACKET_FLAG_AFTER_HOST) != 0) start += costs.host_latency_ps;
    if (packet.wait_event != JAL_EVENT_NONE) start = max_of(start, owner.events[packet.wait_event].end_ps);
    outcome.start_ps = start;
    outcome.end_ps = start + costs.packet_ps;
    status = execute(client, index, packet, outcome, fault);
  }
  if (status != JAL_OK) {
    const uint32_t record = write_record(client, index, packet, status, fault);
    poison_event(owner, packet.signal_event, status, record);
    poison_queue(client, index, status, record);
    // A blocked argument block cannot be trusted: the whole ring is handed back, as for dropped packets.
    queue.argument_tail = load_acquire(&owner.region->queues[index].argument_head);
    ++packets_;
    retire(owner, index);
    if (status == JAL_ERROR_KERNEL_DEADLINE) set_lost(status);
    return Progress::done_long;
  }
  queue.last_start_ps = outcome.start_ps;
  queue.time_ps = max_of(queue.time_ps, outcome.end_ps);
  advance_to(outcome.end_ps, queue.phase);
  if (packet.signal_event != JAL_EVENT_NONE) {
    jal_event_mirror& truth = owner.events[packet.signal_event];
    truth = {packet.signal_value, 0, 0, outcome.start_ps, outcome.end_ps};
    jal_event_mirror& mirror = owner.region->events[packet.signal_event];
    mirror.status = 0;
    mirror.record = 0;
    mirror.start_ps = truth.start_ps;
    mirror.end_ps = truth.end_ps;
    store_release(&mirror.value, truth.value);
  }
  ++packets_;
  retire(owner, index);
  return outcome.is_long ? Progress::done_long : Progress::done;
}

int32_t Control::execute(uint32_t client, uint32_t index, const jal_packet& packet, Outcome& out,
                         hal::FaultReport& fault) {
  Queue& queue = clients_[client].queues[index];
  Text why(fault.text, sizeof fault.text);
  const uint64_t unused = packet.p[0] | packet.p[1] | packet.p[2] | packet.p[3];
  switch (JAL_PACKET_TYPE(packet.header)) {
    case JAL_PACKET_COPY:
    case JAL_PACKET_FILL:
      return run_copy(client, index, packet, out, fault);
    case JAL_PACKET_DISPATCH:
      return run_dispatch(client, index, packet, out, fault);
    case JAL_PACKET_EVENT_SIGNAL:
    case JAL_PACKET_EVENT_WAIT:
    case JAL_PACKET_TIMESTAMP:
      if (packet.p0 != 0 || unused != 0) break;
      return JAL_OK;
    case JAL_PACKET_PHASE:
      if (packet.p0 >= JAL_PHASE_COUNT) {
        why << "phase " << packet.p0 << ": phases are below " << static_cast<uint32_t>(JAL_PHASE_COUNT);
        return JAL_ERROR_BAD_PACKET;
      }
      if (unused != 0) break;
      queue.phase = packet.p0;
      return JAL_OK;
    case JAL_PACKET_COUNT: {
      const jal_count_payload count = jal_count_payload_decode(&packet);
      if (count.phase >= JAL_PHASE_COUNT) {
        why << "phase " << count.phase << ": phases are below " << static_cast<uint32_t>(JAL_PHASE_COUNT);
        return JAL_ERROR_BAD_PACKET;
      }
      if ((count.reserved[0] | count.reserved[1] | count.reserved[2]) != 0) break;
      phase_tokens_[count.phase] += count.tokens;
      return JAL_OK;
    }
    case JAL_PACKET_IDLE: {
      const jal_idle_payload idle = jal_idle_payload_decode(&packet);
      if (idle.reserved0 != 0 || (idle.reserved[0] | idle.reserved[1] | idle.reserved[2]) != 0) break;
      if (idle.idle_ns > kMaxIdleNs) {
        why << "idle for " << idle.idle_ns << " ns: at most " << kMaxIdleNs;
        return JAL_ERROR_BAD_PACKET;
      }
      out.end_ps += idle.idle_ns * 1000;
      return JAL_OK;
    }
    case JAL_PACKET_COLLECTIVE:
    case JAL_PACKET_GRAPH_REPLAY:
      why << "packet type " << JAL_PACKET_TYPE(packet.header) << ": this device does not offer the feature";
      return JAL_ERROR_UNIMPLEMENTED;
    default:
      why << "packet type " << JAL_PACKET_TYPE(packet.header) << " is not legal";
      return JAL_ERROR_BAD_PACKET;
  }
  why << "packet type " << JAL_PACKET_TYPE(packet.header) << ": a reserved field of the payload is set";
  return JAL_ERROR_BAD_PACKET;
}

/// The HBM side of a transfer is this client's, in every slice it visits.
int32_t Control::check_range(uint32_t client, uint64_t address, uint64_t bytes, uint64_t slice_mask, const char* what,
                             hal::FaultReport& fault) const {
  Text why(fault.text, sizeof fault.text);
  fault.address = address;
  const uint32_t slices = hal::chip_info(board_).slices;
  if (slice_mask != 0 && ((slices < 64 && slice_mask >> slices != 0) || JAL_ADDRESS_SLICE(address) != 0)) {
    why << what << " ";
    why.hex(address) << " with slice mask ";
    why.hex(slice_mask) << ": the address must name slice 0, the mask slices below " << slices;
    return JAL_ERROR_BAD_SLICE_MASK;
  }
  const uint64_t offset = JAL_ADDRESS_OFFSET(address);
  uint64_t rest = slice_mask;
  do {
    const uint32_t slice = slice_mask == 0 ? JAL_ADDRESS_SLICE(address) : static_cast<uint32_t>(std::countr_zero(rest));
    if (pages_.covering(client, slice, offset, bytes) == nullptr) {
      fault.address = JAL_ADDRESS_HBM(slice, offset);
      const bool foreign = pages_.is_foreign(client, slice, offset);
      why << what << " ";
      why.hex(fault.address) << " + " << bytes << " bytes (slice " << slice << ", offset " << offset << ") ";
      why << (foreign ? "belongs to another client" : "is not inside one allocation of this client");
      return foreign ? JAL_ERROR_FOREIGN_ADDRESS : JAL_ERROR_BAD_ADDRESS;
    }
    rest &= rest - 1;
  } while (slice_mask != 0 && rest != 0);
  fault.address = 0;
  return JAL_OK;
}

int32_t Control::run_copy(uint32_t client, uint32_t index, const jal_packet& packet, Outcome& out,
                          hal::FaultReport& fault) {
  const bool fill = JAL_PACKET_TYPE(packet.header) == JAL_PACKET_FILL;
  Text why(fault.text, sizeof fault.text);
  hal::DmaRequest request;
  request.client = client;
  request.queue = index;
  request.fill = fill;
  request.start_ps = out.end_ps;
  if (fill) {
    const jal_fill_payload payload = jal_fill_payload_decode(&packet);
    if (payload.reserved != 0) {
      why << "a reserved field of the fill is set";
      return JAL_ERROR_BAD_PACKET;
    }
    request.pattern = payload.pattern;
    request.dst = payload.dst;
    request.bytes = payload.bytes;
    request.slice_mask = payload.slice_mask;
    if (request.dst % 4 != 0 || request.bytes % 4 != 0) {
      why << "fill of " << request.bytes << " bytes at ";
      why.hex(request.dst) << ": both must be multiples of 4";
      return JAL_ERROR_UNALIGNED_ADDRESS;
    }
  } else {
    const jal_copy_payload payload = jal_copy_payload_decode(&packet);
    if (payload.reserved != 0) {
      why << "a reserved field of the copy is set";
      return JAL_ERROR_BAD_PACKET;
    }
    request.dst = payload.dst;
    request.src = payload.src;
    request.bytes = payload.bytes;
    request.slice_mask = payload.slice_mask;
  }
  const bool dst_hbm = JAL_ADDRESS_SPACE(request.dst) == JAL_SPACE_HBM;
  const bool src_hbm = !fill && JAL_ADDRESS_SPACE(request.src) == JAL_SPACE_HBM;
  const uint64_t mask = request.slice_mask;
  if (mask != 0 && !fill && dst_hbm == src_hbm) {
    // Which side visits the slices would be a guess.
    why << "a copy with a slice mask needs one side in HBM and one on the host";
    return JAL_ERROR_BAD_PACKET;
  }
  const uint64_t visits = mask == 0 ? 1 : static_cast<uint64_t>(std::popcount(mask));
  const uint64_t linear_bytes = request.bytes * visits;
  if (request.bytes == 0 || request.bytes > UINT32_MAX) {
    why << (fill ? "fill" : "copy") << " of " << request.bytes << " bytes: 1 to " << UINT32_MAX;
    return JAL_ERROR_BAD_PACKET;
  }
  for (uint32_t side = 0; side < 2; ++side) {
    const bool is_dst = side == 0;
    if (fill && !is_dst) continue;
    const uint64_t address = is_dst ? request.dst : request.src;
    const char* what = is_dst ? "destination" : "source";
    if (is_dst ? dst_hbm : src_hbm) {
      const int32_t status = check_range(client, address, request.bytes, mask, what, fault);
      if (status != JAL_OK) return status;
    } else if (!JAL_ADDRESS_IS_HOST_VA(address) || (clients_[client].features & JAL_FEATURE_HOST_VA) == 0 || fill ||
               linear_bytes > JAL_ADDRESS_HOST_VA_BIT - (address & ~JAL_ADDRESS_HOST_VA_BIT)) {
      why << what << " ";
      why.hex(address) << " is neither HBM nor host memory of this client";
      fault.address = address;
      return JAL_ERROR_BAD_ADDRESS;
    }
  }
  hal::DmaResult result;
  const int32_t status = hal::dma_run(board_, request, result, fault);
  if (status != JAL_OK) return status;
  out.start_ps = result.begin_ps;
  out.end_ps = result.end_ps;
  out.is_long = true;
  if (!fill && !(dst_hbm && src_hbm)) bytes_host_ += linear_bytes;
  return JAL_OK;
}

/// Every tensor argument is consistent and its memory is this client's in every slice of its mask.
int32_t Control::check_arguments(uint32_t client, const jal_kernel_entry& entry, hal::FaultReport& fault) const {
  const uint32_t slices = hal::chip_info(board_).slices;
  for (uint32_t i = 0; i < entry.argument_count; ++i) {
    const jal_kernel_argument& argument = entry.arguments[i];
    if (argument.type != JAL_ARGUMENT_TENSOR) continue;
    jal_tensor_info info;
    memcpy(&info, arguments_ + argument.offset, sizeof info);
    Text why(fault.text, sizeof fault.text);
    why << "kernel " << entry.name << ", argument " << i << ": ";
    const int32_t status = check_tensor(info, slices, why);
    if (status != JAL_OK) return status;
    for (uint64_t rest = info.slice_mask; rest != 0 && info.bytes_per_slice != 0; rest &= rest - 1) {
      const uint32_t slice = static_cast<uint32_t>(std::countr_zero(rest));
      if (pages_.covering(client, slice, info.offset, info.bytes_per_slice) != nullptr) continue;
      why << "offset " << info.offset << " + " << info.bytes_per_slice << " bytes in slice " << slice
          << " is not inside one allocation of this client";
      fault.address = JAL_ADDRESS_HBM(slice, info.offset);
      return JAL_ERROR_TENSOR_RANGE;
    }
  }
  fault.text[0] = '\0';
  return JAL_OK;
}

int32_t Control::run_dispatch(uint32_t client, uint32_t index, const jal_packet& packet, Outcome& out,
                              hal::FaultReport& fault) {
  Client& owner = clients_[client];
  Queue& queue = owner.queues[index];
  Text why(fault.text, sizeof fault.text);
  const jal_dispatch_payload payload = jal_dispatch_payload_decode(&packet);
  const jal_chip_info& chip = hal::chip_info(board_);
  if (payload.reserved != 0) {
    why << "a reserved field of the dispatch is set";
    return JAL_ERROR_BAD_PACKET;
  }
  uint32_t code = 0;
  const uint32_t module = payload.module_kernel >> 16;
  const uint32_t kernel = payload.module_kernel & 0xffffu;
  const jal_kernel_entry* entry = modules_.find(client, module, kernel, &code);
  if (entry == nullptr) {
    why << "module " << module << ", kernel " << kernel << ": not loaded by this client";
    return JAL_ERROR_NO_KERNEL;
  }
  memcpy(fault.kernel, entry->name, sizeof fault.kernel);
  if (payload.core_mask == 0 || (chip.cores < 64 && payload.core_mask >> chip.cores != 0)) {
    why << "core mask ";
    why.hex(payload.core_mask) << ": the chip has " << chip.cores << " cores";
    return JAL_ERROR_BAD_CORE_MASK;
  }
  const uint64_t offset = payload.arguments >> 32;
  const uint64_t bytes = payload.arguments & 0xffffffffu;
  if (bytes != entry->argument_bytes) {
    why << "kernel " << entry->name << " takes " << entry->argument_bytes << " argument bytes, the packet has "
        << bytes;
    return JAL_ERROR_BAD_ARGUMENTS;
  }
  if (bytes != 0) {
    const uint64_t size = queue.argument_ring_bytes;
    if (offset % JAL_ARGUMENT_ALIGN != 0 || offset > size || bytes > size - offset) {
      why << "arguments at " << offset << " + " << bytes << " bytes: the ring has " << size
          << " bytes, blocks start at multiples of " << static_cast<uint32_t>(JAL_ARGUMENT_ALIGN);
      return JAL_ERROR_BAD_PACKET;
    }
    memcpy(arguments_, reinterpret_cast<const uint8_t*>(owner.region) + queue.argument_offset + offset, bytes);
    const uint64_t at = queue.argument_tail % size;
    queue.argument_tail += (offset >= at ? offset - at : size - at + offset) +
                           (bytes + JAL_ARGUMENT_ALIGN - 1) / JAL_ARGUMENT_ALIGN * JAL_ARGUMENT_ALIGN;
    store_release(&owner.region->queues[index].argument_tail, queue.argument_tail);
  }
  int32_t status = check_arguments(client, *entry, fault);
  if (status != JAL_OK) return status;

  const hal::FirmwareCosts& costs = hal::firmware_costs(board_);
  uint64_t start = out.end_ps;
  for (uint64_t rest = payload.core_mask; rest != 0; rest &= rest - 1) {
    start = max_of(start, core_free_ps_[std::countr_zero(rest)]);
  }
  hal::CoreJob job;
  job.code = code;
  job.kernel = kernel;
  job.entry = entry;
  job.core_mask = payload.core_mask;
  job.arguments = arguments_;
  job.argument_bytes = static_cast<uint32_t>(bytes);
  job.client = client;
  job.queue = index;
  job.tag = payload.tag;
  job.start_ps = start + costs.dispatch_ps;
  hal::CoreJobResult result;
  status = hal::cores_start(board_, job, result);
  while (status == hal::kPending) status = hal::cores_poll(board_, result);
  if (status == JAL_OK) status = result.status;
  if (status != JAL_OK) {
    fault = result.fault;
    if (fault.kernel[0] == '\0') memcpy(fault.kernel, entry->name, sizeof fault.kernel);
    return status;
  }
  out.start_ps = start;
  out.end_ps = result.end_ps + costs.completion_ps;
  out.is_long = true;
  for (uint64_t rest = payload.core_mask; rest != 0; rest &= rest - 1)
    core_free_ps_[std::countr_zero(rest)] = result.end_ps;
  for (uint32_t unit = 0; unit < JAL_UNIT_COUNT; ++unit) {
    busy_ps_[unit] += result.busy_ps[unit];
    if (result.energy_fj[unit] != 0) hal::meter_add_fj(board_, unit, result.energy_fj[unit]);
  }
  bytes_local_ += result.bytes_local;
  bytes_remote_ += result.bytes_remote;
  bytes_collective_ += result.bytes_collective;
  bytes_noc_ += result.bytes_noc;
  ++dispatches_;
  const uint64_t from = max_of(start, dispatch_until_ps_);
  if (result.end_ps > from) {
    dispatch_time_ps_ += result.end_ps - from;
    dispatch_until_ps_ = result.end_ps;
  }
  return JAL_OK;
}

}  // namespace jal::fw
