// A client's session with one device: the client region, the handshake, the mailbox, and the policy of waiting.
//
// What it is not: a queue (queue.hpp) or anything that knows what work means. Invariant: the region is mapped from the
// handshake to the end of the session, is not inherited by forked children, and only the words that session.h gives the
// client are written here. The device's words are copied before they are believed.
// Waiting: nobody else runs this device, so whoever waits drives step(). A thread that finds another one stepping spins
// for a moment, then yields, then sleeps in steps of at most a millisecond. Threads: any, unless said otherwise.
#pragma once
#include <jal/abi/instance.h>

#include <atomic>
#include <initializer_list>
#include <memory>
#include <mutex>
#include <optional>

#include "driver/base/error_frames.hpp"
#include "driver/base/status.hpp"
#include "driver/instance.hpp"
#include "driver/text_drain.hpp"

namespace jal::drv {

/// How long a mailbox request may take; firmware answers in microseconds, behind at most one kernel.
inline constexpr std::uint64_t kMailboxTimeoutNs = 120'000'000'000;

/// How a thread passes the time between two looks.
class Backoff {
 public:
  void pause();
  void reset() { round_ = 0; }

 private:
  unsigned round_ = 0;
};

class Session {
 public:
  /// NO_DEVICE, TOO_MANY_CLIENTS, HANDSHAKE_REFUSED, ABI_TOO_OLD, ABI_TOO_NEW, BOOT_FAILED, DEVICE_LOST,
  /// OUT_OF_HOST_MEMORY. The instance must outlive the session.
  static Result<std::unique_ptr<Session>> open(Instance& instance, std::uint32_t device);
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  Instance& instance() const { return instance_; }
  std::uint32_t device() const { return device_; }
  const jal_chip_info& chip() const { return chip_; }
  std::uint64_t features() const { return features_; }
  std::uint32_t abi_version() const { return abi_version_; }
  const char* firmware_version() const { return firmware_version_; }
  jal_client_region& region() const { return *region_; }

  /// Runs the device for at most one long unit of work on this thread. JAL_STEP_*.
  std::uint32_t step() {
    const std::uint32_t result = api_.step(attachment_);
    if (text_.has_text()) text_.drain();
    return result;
  }

  /// Drives the device until done() or the deadline (absolute, now_ns()). OK, TIMEOUT, DEVICE_LOST; bare codes.
  template <typename Done>
  Status wait(Done&& done, std::uint64_t deadline_ns) {
    Backoff backoff;
    for (;;) {
      if (done()) return {};
      const std::uint32_t result = step();
      if (done()) return {};
      if (result == JAL_STEP_LOST) return JAL_ERROR_DEVICE_LOST;
      if (now_ns() >= deadline_ns) return JAL_ERROR_TIMEOUT;
      if (result == JAL_STEP_WORKED) {
        backoff.reset();
      } else {
        backoff.pause();
      }
    }
  }

  struct Answer {
    jal_status_t status = JAL_OK;
    std::uint64_t word[7] = {};
  };
  /// One mailbox request. A refusal is in the answer's status, without a message. FIRMWARE_HUNG (with the post code),
  /// DEVICE_LOST.
  Result<Answer> ask(std::uint32_t opcode, std::initializer_list<std::uint64_t> arguments);

  /// A copy of an error record; empty if it was never written or is not among the newest JAL_ERROR_RECORDS - 1, so that
  /// it may be overwritten by now. Any thread.
  std::optional<jal_error_record> record(std::uint32_t id) const;
  /// The failure that took the device down, as a Status with a message.
  Status lost() const;

  TextDrain& text() { return text_; }

  /// Device time that this thread has seen by waiting; 0 if it never waited for this device.
  std::uint64_t observed_ps() const {
    const Observed& mine = t_observed[device_ % kObservedSlots];
    return mine.session == id_ ? mine.time_ps : 0;
  }
  void observe_ps(std::uint64_t time_ps) const {
    if (time_ps > observed_ps()) t_observed[device_ % kObservedSlots] = {id_, time_ps};
  }

  /// The part of the region that belongs to queue `index`: its ring and its argument ring.
  static constexpr std::uint64_t kRingBytesMax = JAL_QUEUE_DEPTH_MAX * sizeof(jal_packet);
  static constexpr std::uint64_t kArgumentRingBytesMax = 1u << 20;
  static std::uint64_t ring_offset(std::uint32_t index);
  static std::uint64_t argument_offset(std::uint32_t index) { return ring_offset(index) + kRingBytesMax; }
  static std::uint64_t region_bytes() { return ring_offset(JAL_QUEUES_PER_CLIENT); }
  /// A free queue index, taken; empty when all are in use.
  std::optional<std::uint32_t> take_queue_index();
  void return_queue_index(std::uint32_t index);

 private:
  Session(Instance& instance, std::uint32_t device, jal_client_region* region);

  static constexpr std::uint32_t kObservedSlots = 8;  // devices of an instance
  struct Observed {
    std::uint64_t session = 0;
    std::uint64_t time_ps = 0;
  };
  static constinit thread_local Observed t_observed[kObservedSlots];

  Instance& instance_;
  const jal_instance_api& api_;
  const std::uint32_t device_;
  const std::uint64_t id_;
  jal_client_region* const region_;
  jal_attachment* attachment_ = nullptr;
  jal_chip_info chip_ = {};
  std::uint64_t features_ = 0;
  std::uint32_t abi_version_ = 0;
  char firmware_version_[24] = "";
  TextDrain text_;
  std::mutex mailbox_mutex_;
  std::mutex index_mutex_;
  std::uint32_t queues_in_use_ = 0;  // bit per index
};

/// A refusal of an Answer as a Status with a message.
template <typename... T>
Status refused(const Session::Answer& answer, fmt::format_string<T...> format, T&&... arguments) {
  return add_frame(fail(answer.status, "{}; {}", status_text(answer.status), status_advice(answer.status)), format,
                   std::forward<T>(arguments)...);
}

}  // namespace jal::drv
