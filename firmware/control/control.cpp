// Boot, sessions, the step, time accounts, telemetry and log. See control.hpp.
#include "firmware/control/control.hpp"

#include <string.h>

#include <bit>
#include <jal/hal/clock.hpp>
#include <jal/hal/memory.hpp>
#include <jal/hal/power.hpp>

#include "firmware/control/shared_memory.hpp"

#ifndef JAL_FIRMWARE_VERSION
  #error "the build defines JAL_FIRMWARE_VERSION"
#endif

namespace jal::fw {
namespace {

// Packets of short work that one step may retire, so that step() stays short while a client floods a queue.
constexpr uint32_t kPacketsPerStep = 256;
// Work that makes no progress for so long counts as hung. Longer than the cores' own deadline, so that a kernel that
// loops is reported as such first. Source: the rule of driver/README.md that a host's deadline exceeds the device's.
constexpr uint64_t kPendingDeadlineNs = 60ull * 1000000000ull;

/// Writes tags into a page between an odd and an even sequence number.
class PageWriter {
 public:
  explicit PageWriter(jal_telemetry_page* page) : page_(page), sequence_(page->sequence) {
    __atomic_store_n(&page_->sequence, sequence_ + 1, __ATOMIC_RELAXED);
    // Pairs with the reader's acquire fence between copying the page and reading the sequence again.
    __atomic_thread_fence(__ATOMIC_RELEASE);
  }
  ~PageWriter() {
    page_->count = count_;
    store_release(&page_->sequence, sequence_ + 2);
  }
  PageWriter(const PageWriter&) = delete;
  PageWriter& operator=(const PageWriter&) = delete;

  void put(uint32_t tag, uint64_t value, uint32_t index = 0) {
    if (count_ == JAL_TELEMETRY_ENTRIES) return;
    page_->entry[count_++] = {tag, index, value};
  }

 private:
  jal_telemetry_page* page_;
  uint64_t sequence_;
  uint32_t count_ = 0;
};

bool is_zero(const void* bytes, uint64_t count) {
  const auto* p = static_cast<const uint8_t*>(bytes);
  uint8_t any = 0;
  for (uint64_t i = 0; i < count; ++i) any |= p[i];
  return any == 0;
}

}  // namespace

void Control::log(uint32_t id, uint64_t a, uint64_t b, uint64_t c, uint64_t d) {
  auto* ring = static_cast<jal_log_ring*>(hal::log_ring(board_));
  uint32_t level = 0;
  switch (id) {
#define JAL_FW_LOG(name, value, log_level, text) \
  case value:                                    \
    level = log_level;                           \
    break;
    JAL_LOG_LIST(JAL_FW_LOG)
#undef JAL_FW_LOG
    default:
      break;
  }
  const uint64_t written = ring->written;
  ring->entry[written % JAL_LOG_ENTRIES] = {clock_ps_, id, level, {a, b, c, d}};
  store_release(&ring->written, written + 1);
}

void Control::boot() {
  const jal_chip_info& chip = hal::chip_info(board_);
  const struct {
    uint32_t code;
    bool holds;
  } steps[] = {
      {JAL_POST_RESET, true},
      {JAL_POST_CLOCK, chip.clock_hz > 0},
      {JAL_POST_MEMORY, chip.slices >= 1 && chip.slices <= JAL_MAX_SLICES && chip.slice_bytes >= JAL_PAGE_BYTES &&
                            chip.slice_bytes % JAL_PAGE_BYTES == 0 &&
                            chip.slice_bytes >> JAL_PAGE_SHIFT <= kMaxPagesPerSlice},
      {JAL_POST_CORES, chip.cores >= 1 && chip.cores <= JAL_MAX_CORES && chip.grid_rows * chip.grid_cols == chip.cores},
      {JAL_POST_POWER, chip.rated_milliwatts >= chip.sustained_milliwatts && chip.sustained_milliwatts > 0},
      {JAL_POST_TELEMETRY, hal::telemetry_page(board_) != nullptr},
  };
  state_ = JAL_DEVICE_STATE_BOOTING;
  for (const auto& step : steps) {
    post_code_ = step.code;
    log(JAL_LOG_BOOT_POST, post_code_);
    if (step.holds) continue;
    post_code_ |= JAL_POST_FAILED;
    state_ = JAL_DEVICE_STATE_FAILED;
    publish();
    return;
  }
  pages_.reset(chip.slices, static_cast<uint32_t>(chip.slice_bytes >> JAL_PAGE_SHIFT));
  state_ = JAL_DEVICE_STATE_OK;
  post_code_ = JAL_POST_READY;
  log(JAL_LOG_BOOT_POST, post_code_);
  publish();
}

int32_t Control::attach(uint32_t client) {
  uint64_t bytes = 0;
  auto* region =
      client < hal::kMaxClients ? static_cast<jal_client_region*>(hal::client_region(board_, client, &bytes)) : nullptr;
  if (region == nullptr || bytes < sizeof(jal_client_region)) return JAL_ERROR_INVALID_ARGUMENT;
  // A second handshake would forget the first session's pages.
  if (clients_[client].is_attached != 0) return JAL_ERROR_BUSY;
  const uint32_t magic = load_acquire(&region->client.magic);
  jal_handshake hello;
  memcpy(&hello, &region->client, sizeof hello);

  jal_handshake answer = {};
  answer.abi_min = JAL_ABI_VERSION_MIN;
  answer.abi_max = JAL_ABI_VERSION_MAX;
  answer.features = hal::features(board_);
  memcpy(answer.version, JAL_FIRMWARE_VERSION, sizeof JAL_FIRMWARE_VERSION);
  const uint32_t highest = hello.abi_max < JAL_ABI_VERSION_MAX ? hello.abi_max : JAL_ABI_VERSION_MAX;
  if (state_ == JAL_DEVICE_STATE_LOST) {
    answer.status = JAL_ERROR_DEVICE_LOST;
  } else if (state_ != JAL_DEVICE_STATE_OK) {
    answer.status = JAL_ERROR_BOOT_FAILED;
  } else if (magic != JAL_CLIENT_MAGIC || hello.abi_min > hello.abi_max) {
    answer.status = JAL_ERROR_HANDSHAKE_REFUSED;
  } else if (!is_zero(hello.reserved, sizeof hello.reserved) || hello.abi_agreed != 0 || hello.status != 0) {
    answer.status = JAL_ERROR_RESERVED_NOT_ZERO;
  } else if (hello.abi_min > JAL_ABI_VERSION_MAX) {
    answer.status = JAL_ERROR_ABI_TOO_OLD;
  } else if (hello.abi_max < JAL_ABI_VERSION_MIN) {
    answer.status = JAL_ERROR_ABI_TOO_NEW;
  } else {
    answer.abi_agreed = highest;
  }
  if (answer.status == JAL_OK) {
    Client& slot = clients_[client];
    memset(&slot, 0, sizeof slot);
    slot.is_attached = 1;
    slot.region = region;
    slot.region_bytes = bytes;
    slot.features = hello.features & answer.features;
    slot.mailbox_sequence = load_acquire(&region->request.sequence);
    region->chip = hal::chip_info(board_);
    log(JAL_LOG_CLIENT_ATTACHED, client, answer.abi_agreed);
  } else {
    log(JAL_LOG_CLIENT_REFUSED, hello.abi_min, hello.abi_max, JAL_ABI_VERSION_MIN, JAL_ABI_VERSION_MAX);
  }
  region->post_code = post_code_;
  region->lost_status = static_cast<uint32_t>(lost_status_);
  memcpy(&region->device, &answer, sizeof answer);
  store_release(&region->device.magic, JAL_DEVICE_MAGIC);
  is_changed_ = 1;
  publish();
  return answer.status;
}

void Control::detach(uint32_t client) {
  if (client >= hal::kMaxClients || clients_[client].is_attached == 0) return;
  uint64_t pages = 0;
  pages_.for_each(client, [&](uint64_t id, const Reservation& reservation) {
    pages += static_cast<uint64_t>(reservation.pages) * static_cast<uint64_t>(std::popcount(reservation.slice_mask));
    hal::memory_unmap(board_, reservation.extent);
    pages_.release(id);
  });
  modules_.unload_all(board_, client);
  clients_[client].is_attached = 0;
  clients_[client].region = nullptr;
  log(JAL_LOG_CLIENT_DETACHED, client, pages);
  is_changed_ = 1;
  publish();
}

StepResult Control::step() {
  if (state_ == JAL_DEVICE_STATE_LOST) {
    // Mailboxes are still answered, so that a client learns why instead of timing out.
    for (uint32_t c = 0; c < hal::kMaxClients; ++c) {
      if (clients_[c].is_attached != 0) (void)answer_mailbox(c);
    }
    return StepResult::lost;
  }
  bool worked = false;
  bool may_run = true;
  bool is_used_up = false;
  uint32_t budget = kPacketsPerStep;
  const uint32_t first = next_client_;
  for (uint32_t n = 0; n < hal::kMaxClients; ++n) {
    const uint32_t c = (first + n) % hal::kMaxClients;
    Client& client = clients_[c];
    if (client.is_attached == 0) continue;
    worked = answer_mailbox(c) || worked;
    if (is_used_up) continue;
    for (uint32_t q = 0; q < JAL_QUEUES_PER_CLIENT && may_run; ++q) {
      if (client.queues[q].state == JAL_QUEUE_STATE_FREE) continue;
      while (may_run && budget > 0) {
        const Progress progress = run_queue(c, q);
        if (progress == Progress::empty || progress == Progress::blocked) break;
        worked = true;
        --budget;
        if (progress == Progress::done_long) may_run = false;
        if (state_ == JAL_DEVICE_STATE_LOST) return StepResult::lost;
      }
    }
    if (may_run && budget > 0) continue;
    // Whoever used up this step goes last in the next one. Mailboxes are still answered in this one.
    next_client_ = (c + 1) % hal::kMaxClients;
    is_used_up = true;
  }
  if (worked) {
    ++heartbeat_;
    is_changed_ = 1;
  }
  if (is_changed_ != 0) publish();
  return worked ? StepResult::worked : StepResult::idle;
}

void Control::advance_to(uint64_t time_ps, uint32_t phase) {
  phase_ = phase;
  if (time_ps > clock_ps_) {
    hal::meter_advance_ps(board_, time_ps - clock_ps_);
    phase_time_ps_[phase] += time_ps - clock_ps_;
    clock_ps_ = time_ps;
  }
  // The packet's dynamic energy is in the meters already: what they gained since the last packet belongs to this phase,
  // so the phases always add up to the package.
  uint64_t total = 0;
  for (uint32_t unit = 0; unit < JAL_UNIT_COUNT; ++unit) total += hal::meter_read_nj(board_, unit);
  phase_energy_nj_[phase] += total - metered_nj_;
  metered_nj_ = total;
}

void Control::publish() {
  is_changed_ = 0;
  auto* page = static_cast<jal_telemetry_page*>(hal::telemetry_page(board_));
  if (page == nullptr) return;  // such a board stopped at JAL_POST_TELEMETRY
  const jal_chip_info& chip = hal::chip_info(board_);
  uint64_t pending = 0;
  uint32_t clients = 0;
  uint32_t queues = 0;
  for (const Client& client : clients_) {
    if (client.is_attached == 0) continue;
    ++clients;
    for (uint32_t q = 0; q < JAL_QUEUES_PER_CLIENT; ++q) {
      const Queue& queue = client.queues[q];
      if (queue.state == JAL_QUEUE_STATE_FREE) continue;
      ++queues;
      // The client writes `published`; more than a ring's worth would be a lie.
      const uint64_t waiting = load_acquire(&client.region->queues[q].published) - queue.consumed;
      const uint64_t depth = 1ull << queue.depth_log2;
      pending += waiting > depth ? depth : waiting;
    }
  }
  uint64_t static_uw = 0;
  uint64_t total_nj = 0;
  PageWriter out(page);
  page->update_unix_ns = hal::host_unix_ns(board_);
  memcpy(page->model, chip.model, sizeof page->model);
  out.put(JAL_TAG_STATE, state_);
  out.put(JAL_TAG_UUID, chip.uuid[0], 0);
  out.put(JAL_TAG_UUID, chip.uuid[1], 1);
  out.put(JAL_TAG_CLOCK_PS, clock_ps_);
  for (uint32_t unit = 0; unit < JAL_UNIT_COUNT; ++unit) {
    const uint64_t energy_nj = hal::meter_read_nj(board_, unit);
    total_nj += energy_nj;
    static_uw += hal::unit_static_microwatts(board_, unit);
    out.put(JAL_TAG_UNIT_ENERGY_NJ, energy_nj, unit);
    out.put(JAL_TAG_UNIT_STATE, hal::unit_state(board_, unit), unit);
    out.put(JAL_TAG_UNIT_BUSY_PS, busy_ps_[unit], unit);
  }
  out.put(JAL_TAG_ENERGY_NJ, total_nj);
  out.put(JAL_TAG_ENERGY_EPOCH, 0);
  out.put(JAL_TAG_POWER_STATIC_MW, static_uw / 1000);
  out.put(JAL_TAG_POWER_RATED_MW, chip.rated_milliwatts);
  out.put(JAL_TAG_POWER_SUSTAINED_MW, chip.sustained_milliwatts);
  out.put(JAL_TAG_PHASE, phase_);
  for (uint32_t phase = 0; phase < JAL_PHASE_COUNT; ++phase) {
    out.put(JAL_TAG_PHASE_ENERGY_NJ, phase_energy_nj_[phase], phase);
    out.put(JAL_TAG_PHASE_TIME_PS, phase_time_ps_[phase], phase);
    out.put(JAL_TAG_PHASE_TOKENS, phase_tokens_[phase], phase);
  }
  out.put(JAL_TAG_HBM_TOTAL, chip.chip_bytes);
  out.put(JAL_TAG_HBM_USABLE, chip.slice_bytes * chip.slices);
  out.put(JAL_TAG_HBM_RESERVED, chip.reserved_bytes);
  out.put(JAL_TAG_HBM_USED, pages_.used_bytes());
  out.put(JAL_TAG_BYTES_LOCAL, bytes_local_);
  out.put(JAL_TAG_BYTES_REMOTE, bytes_remote_);
  out.put(JAL_TAG_BYTES_COLLECTIVE, bytes_collective_);
  out.put(JAL_TAG_BYTES_NOC, bytes_noc_);
  out.put(JAL_TAG_BYTES_HOST, bytes_host_);
  out.put(JAL_TAG_PACKETS, packets_);
  out.put(JAL_TAG_DISPATCHES, dispatches_);
  out.put(JAL_TAG_ERRORS, errors_);
  out.put(JAL_TAG_CLIENTS, clients);
  out.put(JAL_TAG_QUEUES, queues);
  out.put(JAL_TAG_PENDING, pending);
  out.put(JAL_TAG_PENDING_DEADLINE_UNIX_NS, pending == 0 ? 0 : page->update_unix_ns + kPendingDeadlineNs);
  out.put(JAL_TAG_HEARTBEAT, heartbeat_);
  out.put(JAL_TAG_POST_CODE, post_code_);
  out.put(JAL_TAG_CORES, chip.cores);
  out.put(JAL_TAG_DISPATCH_TIME_PS, dispatch_time_ps_);
}

}  // namespace jal::fw
