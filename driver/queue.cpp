// Contract: queue.hpp and jal/abi/packet.h.
#include "driver/queue.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>

#include "driver/error_record.hpp"

namespace jal::drv {
namespace {

std::atomic<std::uint64_t> g_generation{0};

/// The contract's limit of one idle packet.
constexpr std::uint64_t kIdleNsMax = 3600ull * 1'000'000'000;

}  // namespace

Queue::Queue(Session& session, std::uint32_t index, const QueueOptions& options)
    : session_(session),
      index_(index),
      generation_(g_generation.fetch_add(1, std::memory_order_relaxed) + 1),
      depth_(options.depth),
      ring_(reinterpret_cast<jal_packet*>(reinterpret_cast<char*>(&session.region()) + Session::ring_offset(index))),
      control_(session.region().queues[index]),
      arguments_(reinterpret_cast<unsigned char*>(&session.region()) + Session::argument_offset(index)),
      argument_bytes_(options.argument_bytes),
      full_timeout_ns_(options.full_timeout_ns),
      waits_for_room_(options.waits_for_room) {}

Result<std::unique_ptr<Queue>> Queue::create(Session& session, const QueueOptions& options) {
  if (!std::has_single_bit(options.depth) || options.depth < JAL_QUEUE_DEPTH_MIN ||
      options.depth > JAL_QUEUE_DEPTH_MAX) {
    return fail(JAL_ERROR_INVALID_ARGUMENT, "queue depth {}: must be a power of two from {} to {}", options.depth,
                JAL_QUEUE_DEPTH_MIN, JAL_QUEUE_DEPTH_MAX);
  }
  if (!std::has_single_bit(options.argument_bytes) || options.argument_bytes < JAL_ARGUMENT_BYTES_MAX ||
      options.argument_bytes > Session::kArgumentRingBytesMax) {
    return fail(JAL_ERROR_INVALID_ARGUMENT, "argument ring of {} bytes: must be a power of two from {} to {}",
                options.argument_bytes, JAL_ARGUMENT_BYTES_MAX, Session::kArgumentRingBytesMax);
  }
  const std::optional<std::uint32_t> index = session.take_queue_index();
  if (!index) {
    return fail(JAL_ERROR_QUEUE_LIMIT, "device {} gives a client {} queues and all are in use; destroy a stream",
                session.device(), JAL_QUEUES_PER_CLIENT);
  }
  const auto log2_depth = static_cast<std::uint64_t>(std::countr_zero(options.depth));
  const auto answer = session.ask(JAL_MAILBOX_QUEUE_CREATE, {*index, Session::ring_offset(*index), log2_depth,
                                                             Session::argument_offset(*index), options.argument_bytes});
  if (!answer.ok() || answer->status != JAL_OK) {
    session.return_queue_index(*index);
    if (!answer.ok()) return add_frame(answer.status(), "creating a queue on device {}", session.device());
    return refused(*answer, "creating queue {} of depth {} on device {}", *index, options.depth, session.device());
  }
  return std::unique_ptr<Queue>(new Queue(session, *index, options));
}

Queue::~Queue() {
  if (!is_idle()) (void)session_.ask(JAL_MAILBOX_QUEUE_RECOVER, {index_});
  const auto answer = session_.ask(JAL_MAILBOX_QUEUE_DESTROY, {index_});
  // On a lost device the index stays taken: firmware still has the queue.
  if (answer.ok() && answer->status == JAL_OK) session_.return_queue_index(index_);
}

bool Queue::has_credit() {
  // Pairs with the firmware's release: it has copied the packets before this number.
  consumed_seen_ = std::atomic_ref(control_.consumed).load(std::memory_order_acquire);
  return published_.load(std::memory_order_relaxed) - consumed_seen_ < depth_;
}

jal_status_t Queue::make_room() {
  if (is_poisoned()) {
    if (control_.status == JAL_ERROR_DEVICE_LOST) return session_.lost().code();
    return fail(JAL_ERROR_QUEUE_POISONED,
                "queue {} drops work since a packet failed with {}: {}. Call jal_stream_recover", index_,
                status_name(control_.status), failure_words())
        .code();
  }
  if (has_credit()) return JAL_OK;
  Status waited = JAL_ERROR_TIMEOUT;
  if (waits_for_room_) waited = session_.wait([&] { return has_credit(); }, now_ns() + full_timeout_ns_);
  if (waited.ok()) return is_poisoned() ? make_room() : JAL_OK;
  if (waited.code() == JAL_ERROR_DEVICE_LOST) return session_.lost().code();
  return fail(JAL_ERROR_QUEUE_FULL,
              "queue {} holds {} packets and all are pending; wait for some, or raise the depth "
              "(at most {})",
              index_, depth_, JAL_QUEUE_DEPTH_MAX)
      .code();
}

jal_status_t Queue::make_argument_room(std::uint64_t new_head) {
  const auto fits = [&] {
    // Pairs with the firmware's release: it has copied the arguments before the tail.
    argument_tail_seen_ = std::atomic_ref(control_.argument_tail).load(std::memory_order_acquire);
    return new_head - argument_tail_seen_ <= argument_bytes_;
  };
  if (fits()) return JAL_OK;
  Status waited = JAL_ERROR_TIMEOUT;
  if (waits_for_room_) waited = session_.wait(fits, now_ns() + full_timeout_ns_);
  if (waited.ok()) return JAL_OK;
  if (waited.code() == JAL_ERROR_DEVICE_LOST) return session_.lost().code();
  return fail(JAL_ERROR_ARGUMENT_RING_FULL,
              "queue {}: {} of the argument ring's {} bytes are pending; wait for some "
              "launches, or raise argument_bytes (at most {})",
              index_, argument_head_ - argument_tail_seen_, argument_bytes_, Session::kArgumentRingBytesMax)
      .code();
}

jal_status_t Queue::prepare() {
  const std::uint64_t number = published_.load(std::memory_order_relaxed);
  if (number - consumed_seen_ >= depth_ || is_poisoned()) {
    if (const jal_status_t status = make_room(); status != JAL_OK) return status;
  }
  if (session_.observed_ps() > observed_seen_ps_) catch_up();
  return JAL_OK;
}

void Queue::catch_up() {
  observed_seen_ps_ = session_.observed_ps();
  // Behind packets that nobody has waited for the host's latency is hidden, and when they end is not known here.
  if (waited_.load(std::memory_order_relaxed) < published_.load(std::memory_order_relaxed)) return;
  next_flags_ = 0;
  const std::uint64_t time_ps = device_time_ps();
  if (observed_seen_ps_ > time_ps) {
    const jal_idle_payload payload = {0, std::min((observed_seen_ps_ - time_ps + 999) / 1000, kIdleNsMax), {}};
    jal_packet packet = {};
    jal_idle_payload_encode(&payload, &packet);
    publish(JAL_PACKET_IDLE, packet);  // the ring is empty, so there is room
  }
  next_flags_ = JAL_PACKET_FLAG_AFTER_HOST << 8;
}

void Queue::note_waited(std::uint64_t number, std::uint64_t time_ps) {
  session_.observe_ps(time_ps);
  std::uint64_t known = waited_.load(std::memory_order_relaxed);
  while (known < number && !waited_.compare_exchange_weak(known, number, std::memory_order_relaxed)) {
  }
}

jal_status_t Queue::reserve(std::uint32_t bytes, void** out_block, std::uint64_t* out_word) {
  if (needs_preparation()) {
    if (const jal_status_t status = prepare(); status != JAL_OK) return status;
  }
  const std::uint64_t block = (std::uint64_t{bytes} + JAL_ARGUMENT_ALIGN - 1) / JAL_ARGUMENT_ALIGN * JAL_ARGUMENT_ALIGN;
  std::uint64_t at = argument_head_ & (argument_bytes_ - 1);
  std::uint64_t head = argument_head_;
  if (at + block > argument_bytes_) {  // never across the ring's end
    head += argument_bytes_ - at;
    at = 0;
  }
  head += block;
  if (head - argument_tail_seen_ > argument_bytes_) {
    if (const jal_status_t status = make_argument_room(head); status != JAL_OK) return status;
    if (is_poisoned()) return make_room();
  }
  reserved_head_ = head;
  *out_block = arguments_ + at;
  *out_word = at << 32 | bytes;
  return JAL_OK;
}

std::optional<jal_error_record> Queue::failure_record() const {
  if (!is_poisoned()) return std::nullopt;
  return session_.record(control_.record);
}

std::string Queue::failure_words() const {
  const std::optional<jal_error_record> record = session_.record(control_.record);
  if (record && record->status == control_.status) return describe(*record);
  return fmt::format("{} (its error record was overwritten by later ones)", status_text(control_.status));
}

Status Queue::failure() const {
  if (!is_poisoned()) return {};
  if (control_.status == JAL_ERROR_DEVICE_LOST) return session_.lost();
  return fail(control_.status, "{}", failure_words());
}

Status Queue::wait(std::uint64_t deadline_ns) {
  const std::uint64_t target = published();
  const Status waited = session_.wait([&] { return completed() >= target; }, deadline_ns);
  if (waited.code() == JAL_ERROR_TIMEOUT) {
    return fail(JAL_ERROR_TIMEOUT,
                "queue {} of device {}: the deadline passed with {} of {} packets done; the work goes on", index_,
                session_.device(), completed(), target);
  }
  if (!waited.ok()) return session_.lost();
  note_waited(target, device_time_ps());
  return failure();
}

Status Queue::query() {
  const std::uint64_t target = published();
  if (completed() < target) {
    const std::uint32_t result = session_.step();
    if (completed() < target) return result == JAL_STEP_LOST ? session_.lost() : Status(JAL_ERROR_NOT_READY);
  }
  note_waited(target, device_time_ps());
  return failure();
}

Result<std::uint64_t> Queue::recover() {
  const auto answer = session_.ask(JAL_MAILBOX_QUEUE_RECOVER, {index_});
  if (!answer.ok()) return add_frame(answer.status(), "recovering queue {}", index_);
  if (answer->status != JAL_OK) return refused(*answer, "recovering queue {}", index_);
  return answer->word[0];
}

}  // namespace jal::drv
