// Management firmware of one chip: boot, sessions, command processor, page ownership, dispatcher, telemetry, log.
//
// What it is not: a driver of hardware (the HAL is) or of the host. It has no thread, no heap and no globals: somebody
// calls step(). Invariant: everything a client can write is copied, checked, and only then used; a packet that is
// refused changes nothing but its queue and its events. The object needs zeroed storage (about 22 MiB, touched as it is
// used) and is not copied. Contract: firmware/abi/README.md. Threads: one at a time.
#pragma once
#include <jal/abi/log.h>
#include <jal/abi/session.h>
#include <jal/abi/telemetry.h>
#include <stdint.h>

#include <jal/hal/board.hpp>
#include <jal/hal/cores.hpp>

#include "firmware/control/modules.hpp"
#include "firmware/control/pages.hpp"
#include "firmware/control/text.hpp"

namespace jal::fw {

enum class StepResult : uint32_t {
  idle,    ///< nothing to do until a client publishes
  worked,  ///< something was done; there may be more
  lost,    ///< the device is lost; nothing will be done any more
};

class Control {
 public:
  /// Storage must be zeroed; nothing is written but the board's reference.
  explicit Control(hal::Board& board) : board_(board) {}
  Control(const Control&) = delete;
  Control& operator=(const Control&) = delete;

  /// Runs the post codes and publishes the first telemetry. A board whose description is out of range stays at its
  /// failing code.
  void boot();
  /// Handshake with the client whose region the board has mapped. Statuses: BOOT_FAILED, HANDSHAKE_REFUSED,
  /// ABI_TOO_OLD, ABI_TOO_NEW, RESERVED_NOT_ZERO, DEVICE_LOST, each also written to the region's device half; and the
  /// board's own mistakes, written nowhere: INVALID_ARGUMENT (no such slot or region), BUSY (attached already).
  int32_t attach(uint32_t client);
  /// Ends the session: queued work is dropped, pages are scrubbed and returned, modules unloaded.
  void detach(uint32_t client);
  /// Answers mailboxes, then runs packets, at most one kernel or copy; publishes telemetry if anything changed.
  StepResult step();
  /// Takes the device down: every pending event of every client is poisoned with `status`.
  void set_lost(int32_t status);

 private:
  struct Queue {
    uint32_t state;  // JAL_QUEUE_STATE_*
    uint32_t depth_log2;
    uint64_t ring_offset;
    uint64_t argument_offset;
    uint64_t argument_ring_bytes;
    uint64_t argument_tail;
    uint64_t consumed;
    uint64_t time_ps;
    uint64_t last_start_ps;
    uint32_t phase;
    uint32_t epoch;
    uint32_t record;
    int32_t status;
  };
  struct Client {
    uint32_t is_attached;
    uint32_t mailbox_sequence;
    uint64_t features;
    jal_client_region* region;
    uint64_t region_bytes;
    uint64_t record_count;
    Queue queues[JAL_QUEUES_PER_CLIENT];
    jal_event_mirror events[JAL_EVENT_COUNT];  // the truth; the region has the mirror
  };
  // What a packet did, for times and accounts.
  struct Outcome {
    uint64_t start_ps = 0;
    uint64_t end_ps = 0;
    bool is_long = false;
  };
  enum class Progress { empty, blocked, done, done_long };

  // control.cpp
  void publish();
  void log(uint32_t id, uint64_t a = 0, uint64_t b = 0, uint64_t c = 0, uint64_t d = 0);
  void advance_to(uint64_t time_ps, uint32_t phase);
  // mailbox.cpp
  bool answer_mailbox(uint32_t client);
  int32_t handle_request(uint32_t client, const jal_mailbox_half& request, uint64_t (&result)[7]);
  int32_t create_queue(uint32_t client, const uint64_t (&arg)[7]);
  int32_t recover_queue(uint32_t client, uint64_t index, uint64_t (&result)[7]);
  int32_t alloc_pages(uint32_t client, const uint64_t (&arg)[7], uint64_t (&result)[7]);
  int32_t free_pages(uint32_t client, uint64_t id);
  int32_t query_pages(uint32_t client, uint64_t slice, uint64_t (&result)[7]);
  int32_t load_module(uint32_t client, uint64_t address, uint64_t bytes, uint64_t (&result)[7]);
  bool has_pending(const Client& client) const;
  // command.cpp
  Progress run_queue(uint32_t client, uint32_t index);
  int32_t execute(uint32_t client, uint32_t index, const jal_packet& packet, Outcome& out, hal::FaultReport& fault);
  int32_t check_header(const Client& client, const jal_packet& packet, Text& why) const;
  int32_t run_copy(uint32_t client, uint32_t index, const jal_packet& packet, Outcome& out, hal::FaultReport& fault);
  int32_t run_dispatch(uint32_t client, uint32_t index, const jal_packet& packet, Outcome& out,
                       hal::FaultReport& fault);
  int32_t check_range(uint32_t client, uint64_t address, uint64_t bytes, uint64_t slice_mask, const char* what,
                      hal::FaultReport& fault) const;
  int32_t check_arguments(uint32_t client, const jal_kernel_entry& entry, hal::FaultReport& fault) const;
  // fault.cpp
  uint32_t write_record(uint32_t client, uint32_t index, const jal_packet& packet, int32_t status,
                        const hal::FaultReport& fault);
  void poison_queue(uint32_t client, uint32_t index, int32_t status, uint32_t record);
  void poison_event(Client& client, uint32_t event, int32_t status, uint32_t record);
  void retire(Client& client, uint32_t index);
  void drop_packet(Client& client, uint32_t index, const jal_packet& packet, int32_t status);
  bool fetch(const Client& client, const Queue& queue, jal_packet& out) const;

  hal::Board& board_;
  uint32_t post_code_;
  uint32_t state_;  // JAL_DEVICE_STATE_*
  int32_t lost_status_;
  uint32_t next_client_;
  uint32_t is_changed_;
  uint32_t phase_;
  uint64_t clock_ps_;
  uint64_t dispatch_until_ps_;
  uint64_t dispatch_time_ps_;
  uint64_t metered_nj_;
  uint64_t heartbeat_;
  uint64_t packets_, dispatches_, errors_;
  uint64_t bytes_local_, bytes_remote_, bytes_collective_, bytes_noc_, bytes_host_;
  uint64_t core_free_ps_[JAL_MAX_CORES];
  uint64_t busy_ps_[JAL_UNIT_COUNT];
  uint64_t phase_energy_nj_[JAL_PHASE_COUNT], phase_time_ps_[JAL_PHASE_COUNT], phase_tokens_[JAL_PHASE_COUNT];
  alignas(64) uint8_t arguments_[JAL_ARGUMENT_BYTES_MAX];
  Client clients_[hal::kMaxClients];
  ModuleTable modules_;
  PageTable pages_;
};

}  // namespace jal::fw
