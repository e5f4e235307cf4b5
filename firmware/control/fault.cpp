// Failure: error records, poisoned events and queues, dropped packets. See control.hpp; the rules are in
// firmware/abi/README.md.
#include <string.h>

#include <bit>

#include "firmware/control/control.hpp"
#include "firmware/control/shared_memory.hpp"

namespace jal::fw {

bool Control::fetch(const Client& client, const Queue& queue, jal_packet& out) const {
  const auto* ring = reinterpret_cast<const uint8_t*>(client.region) + queue.ring_offset;
  const uint64_t slot = queue.consumed & ((1ull << queue.depth_log2) - 1);
  const uint8_t* packet = ring + slot * sizeof(jal_packet);
  const uint32_t header = load_acquire(reinterpret_cast<const uint32_t*>(packet));
  const bool lap_is_odd = (queue.consumed >> queue.depth_log2 & 1) != 0;
  if (((header & JAL_PACKET_LAP_BIT) != 0) == lap_is_odd) return false;
  memcpy(&out, packet, sizeof out);
  out.header = header;  // the word that was checked, whatever the ring holds now
  return true;
}

void Control::retire(Client& client, uint32_t index) {
  Queue& queue = client.queues[index];
  jal_queue_control& control = client.region->queues[index];
  ++queue.consumed;
  // Not ordered by itself: another thread of the client may read it at any time.
  __atomic_store_n(&control.time_ps, queue.time_ps, __ATOMIC_RELAXED);
  store_release(&control.argument_tail, queue.argument_tail);
  store_release(&control.consumed, queue.consumed);
  store_release(&control.completed, queue.consumed);
}

uint32_t Control::write_record(uint32_t client, uint32_t index, const jal_packet& packet, int32_t status,
                               const hal::FaultReport& fault) {
  Client& owner = clients_[client];
  const uint64_t number = ++owner.record_count;
  jal_error_record record = {};
  record.id = static_cast<uint32_t>(number);
  record.status = status;
  record.queue = index;
  record.packet_type = JAL_PACKET_TYPE(packet.header);
  record.packet_index = owner.queues[index].consumed;
  if (record.packet_type == JAL_PACKET_DISPATCH) record.tag = jal_dispatch_payload_decode(&packet).tag;
  record.core = fault.core;
  record.line = fault.line;
  record.address = fault.address;
  if (JAL_ADDRESS_SPACE(fault.address) == JAL_SPACE_HBM) {
    const uint32_t slice = JAL_ADDRESS_SLICE(fault.address);
    const uint64_t offset = JAL_ADDRESS_OFFSET(fault.address);
    uint64_t best = UINT64_MAX;
    pages_.for_each(client, [&](uint64_t, const Reservation& r) {
      if (slice >= 64 || (r.slice_mask >> slice & 1) == 0) return;
      const uint64_t base = static_cast<uint64_t>(r.first_page) << JAL_PAGE_SHIFT;
      const uint64_t distance = offset < base ? base - offset : offset - base;
      if (distance >= best) return;
      best = distance;
      record.near_base = JAL_ADDRESS_HBM(slice, base);
      record.near_bytes = r.bytes_per_slice;
    });
  }
  memcpy(record.kernel, fault.kernel, sizeof record.kernel);
  memcpy(record.file, fault.file, sizeof record.file);
  memcpy(record.text, fault.text, sizeof record.text);
  // A reader that sees any of this record sees the count of the one before it.
  __atomic_thread_fence(__ATOMIC_RELEASE);
  owner.region->records[(number - 1) % JAL_ERROR_RECORDS] = record;
  store_release(&owner.region->record_count, number);
  ++errors_;
  return record.id;
}

void Control::poison_event(Client& client, uint32_t event, int32_t status, uint32_t record) {
  if (event == JAL_EVENT_NONE || event >= JAL_EVENT_COUNT) return;
  jal_event_mirror& truth = client.events[event];
  if (truth.value == JAL_EVENT_POISONED) return;  // the first failure stays
  truth.value = JAL_EVENT_POISONED;
  truth.status = status;
  truth.record = record;
  jal_event_mirror& mirror = client.region->events[event];
  mirror.status = status;
  mirror.record = record;
  store_release(&mirror.value, truth.value);
}

void Control::poison_queue(uint32_t client, uint32_t index, int32_t status, uint32_t record) {
  Client& owner = clients_[client];
  Queue& queue = owner.queues[index];
  queue.state = JAL_QUEUE_STATE_POISONED;
  queue.status = status;
  queue.record = record;
  jal_queue_control& control = owner.region->queues[index];
  control.status = status;
  control.record = record;
  store_release(&control.state, queue.state);
  log(JAL_LOG_QUEUE_POISONED, client, index, static_cast<uint64_t>(status), record);
}

/// A packet behind a failure: its signal is poisoned, its arguments are given back, nothing else happens.
void Control::drop_packet(Client& client, uint32_t index, const jal_packet& packet, int32_t status) {
  Queue& queue = client.queues[index];
  poison_event(client, packet.signal_event, status, queue.record);
  if (JAL_PACKET_TYPE(packet.header) == JAL_PACKET_DISPATCH) {
    // The arguments are not read, so the ring is trusted to be consistent only as far as the client's own head.
    queue.argument_tail = load_acquire(&client.region->queues[index].argument_head);
  }
  retire(client, index);
}

void Control::set_lost(int32_t status) {
  if (state_ == JAL_DEVICE_STATE_LOST) return;
  state_ = JAL_DEVICE_STATE_LOST;
  lost_status_ = status;
  log(JAL_LOG_DEVICE_LOST, static_cast<uint64_t>(status));
  for (uint32_t c = 0; c < hal::kMaxClients; ++c) {
    Client& client = clients_[c];
    if (client.is_attached == 0) continue;
    for (uint32_t q = 0; q < JAL_QUEUES_PER_CLIENT; ++q) {
      Queue& queue = client.queues[q];
      if (queue.state == JAL_QUEUE_STATE_FREE) continue;
      if (queue.state == JAL_QUEUE_STATE_RUNNING)
        poison_queue(c, q, JAL_ERROR_DEVICE_LOST, static_cast<uint32_t>(client.record_count));
      jal_packet packet;
      // Bounded: a client that publishes on keeps at most one ring's worth of packets alive here.
      for (uint32_t n = 0; n < (1u << queue.depth_log2) && fetch(client, queue, packet); ++n) {
        drop_packet(client, q, packet, JAL_ERROR_DEVICE_LOST);
      }
    }
    store_release(&client.region->lost_status, static_cast<uint32_t>(status));
  }
  is_changed_ = 1;
  publish();
}

}  // namespace jal::fw
