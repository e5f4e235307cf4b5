// Contract: session.hpp and jal/abi/session.h.
#include "driver/session.hpp"

#include <jal/abi/address.h>
#include <sched.h>
#include <sys/mman.h>
#include <time.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <iterator>

namespace jal::drv {
namespace {

constexpr unsigned kSpinRounds = 100, kYieldRounds = 16;
constexpr long kSleepNsMin = 20'000, kSleepNsMax = 1'000'000;
constexpr std::uint64_t kPage = 4096;

constexpr std::uint64_t round_up_page(std::uint64_t bytes) { return (bytes + kPage - 1) / kPage * kPage; }

std::atomic<std::uint64_t> g_sessions{0};

void cpu_relax() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

}  // namespace

void Backoff::pause() {
  if (round_ < kSpinRounds) {
    cpu_relax();
  } else if (round_ < kSpinRounds + kYieldRounds) {
    sched_yield();
  } else {
    const unsigned doublings = round_ - kSpinRounds - kYieldRounds;
    const long sleep = doublings < 6 ? kSleepNsMin << doublings : kSleepNsMax;
    const timespec pause{0, sleep};
    nanosleep(&pause, nullptr);
  }
  if (round_ < kSpinRounds + kYieldRounds + 6) ++round_;
}

constinit thread_local Session::Observed Session::t_observed[kObservedSlots] = {};

Session::Session(Instance& instance, std::uint32_t device, jal_client_region* region)
    : instance_(instance),
      api_(instance.api()),
      device_(device),
      id_(g_sessions.fetch_add(1, std::memory_order_relaxed) + 1),
      region_(region),
      text_(region->text, device) {}

std::uint64_t Session::ring_offset(std::uint32_t index) {
  return round_up_page(sizeof(jal_client_region)) + std::uint64_t{index} * (kRingBytesMax + kArgumentRingBytesMax);
}

Result<std::unique_ptr<Session>> Session::open(Instance& instance, std::uint32_t device) {
  if (device >= instance.device_count()) {
    return fail(JAL_ERROR_NO_DEVICE, "device {}: the instance has {}; raise JAL_DEVICES (at most 8)", device,
                instance.device_count());
  }
  // Address space for all queues at once; only what is used becomes memory.
  void* memory =
      mmap(nullptr, region_bytes(), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) {
    return fail(JAL_ERROR_OUT_OF_HOST_MEMORY, "the system refuses {} bytes of address space for a client region: {}",
                region_bytes(), std::strerror(errno));
  }
  (void)madvise(memory, region_bytes(), MADV_DONTFORK);
  auto* region = static_cast<jal_client_region*>(memory);
  std::unique_ptr<Session> session(new Session(instance, device, region));

  region->client.abi_min = JAL_ABI_VERSION_MIN;
  region->client.abi_max = JAL_ABI_VERSION_MAX;
  region->client.features = JAL_FEATURE_HOST_VA | JAL_FEATURE_EMULATED | JAL_FEATURE_NATIVE | JAL_FEATURE_RV64;
  std::strncpy(region->client.version, JAL_VERSION_TEXT, sizeof region->client.version - 1);
  // Pairs with the firmware's acquire: the words above are there.
  std::atomic_ref(region->client.magic).store(JAL_CLIENT_MAGIC, std::memory_order_release);

  char words[1024] = "";
  const jal_status_t status = instance.api().attach(instance.handle(), device, memory, region_bytes(),
                                                    &session->attachment_, words, sizeof words);
  if (status != JAL_OK) {
    return add_frame(fail(status, "{}", words[0] != '\0' ? words : status_text(status)), "opening device {}", device);
  }
  const std::uint32_t magic = std::atomic_ref(region->device.magic).load(std::memory_order_acquire);
  const jal_handshake answer = region->device;
  if (magic != JAL_DEVICE_MAGIC || answer.abi_agreed < JAL_ABI_VERSION_MIN || answer.abi_agreed > JAL_ABI_VERSION_MAX) {
    return fail(
        JAL_ERROR_HANDSHAKE_REFUSED,
        "device {} answered magic {:#x} and version {}; expected {:#x} and {}..{}: use a libjal and an emulator "
        "of one release",
        device, magic, answer.abi_agreed, JAL_DEVICE_MAGIC, JAL_ABI_VERSION_MIN, JAL_ABI_VERSION_MAX);
  }
  session->chip_ = region->chip;
  session->chip_.model[sizeof session->chip_.model - 1] = '\0';
  const jal_chip_info& chip = session->chip_;
  if (chip.cores < 1 || chip.cores > JAL_MAX_CORES || chip.slices < 1 || chip.slices > JAL_MAX_SLICES) {
    return fail(JAL_ERROR_HANDSHAKE_REFUSED,
                "device {} claims {} cores and {} slices; 1 to {} and 1 to {} are possible", device, chip.cores,
                chip.slices, JAL_MAX_CORES, JAL_MAX_SLICES);
  }
  session->features_ = answer.features & region->client.features;
  session->abi_version_ = answer.abi_agreed;
  std::memcpy(session->firmware_version_, answer.version, sizeof session->firmware_version_ - 1);
  return session;
}

Session::~Session() {
  if (attachment_ != nullptr) {
    if (text_.has_text()) text_.drain();
    api_.detach(attachment_);
  }
  munmap(region_, region_bytes());
}

Result<Session::Answer> Session::ask(std::uint32_t opcode, std::initializer_list<std::uint64_t> arguments) {
  const std::lock_guard lock(mailbox_mutex_);
  const std::uint64_t deadline = now_ns() + kMailboxTimeoutNs;
  jal_mailbox_half& request = region_->request;
  jal_mailbox_half& response = region_->response;
  const auto answered = [&](std::uint32_t sequence) {
    // Pairs with the firmware's release: the rest of the response is there.
    return std::atomic_ref(response.sequence).load(std::memory_order_acquire) == sequence;
  };
  // A request that timed out may still be under way; its words must not be overwritten.
  Status waited = wait([&] { return answered(request.sequence); }, deadline);
  Answer answer;
  if (waited.ok()) {
    std::memset(request.word, 0, sizeof request.word);
    std::copy(arguments.begin(), arguments.end(), request.word);
    request.opcode = opcode;
    const std::uint32_t sequence = request.sequence + 1;
    std::atomic_ref(request.sequence).store(sequence, std::memory_order_release);
    waited = wait([&] { return answered(sequence); }, deadline);
  }
  if (waited.code() == JAL_ERROR_TIMEOUT) {
    return fail(JAL_ERROR_FIRMWARE_HUNG,
                "device {} did not answer mailbox operation {} within {} s; boot post code {:#x}", device_, opcode,
                kMailboxTimeoutNs / 1'000'000'000, region_->post_code);
  }
  if (!waited.ok()) return lost();
  answer.status = static_cast<jal_status_t>(response.opcode);
  std::memcpy(answer.word, response.word, sizeof answer.word);
  if (answer.status == JAL_ERROR_DEVICE_LOST) return lost();
  return answer;
}

std::optional<jal_error_record> Session::record(std::uint32_t id) const {
  // Record id + JAL_ERROR_RECORDS takes the slot; it is begun once the one before it is counted.
  const auto is_whole = [&] {
    const std::uint64_t written = std::atomic_ref(region_->record_count).load(std::memory_order_acquire);
    return id != 0 && id <= written && written - id < JAL_ERROR_RECORDS - 1;
  };
  if (!is_whole()) return std::nullopt;
  // Acquire, so that the copy comes before the count is read again; pairs with the writer's release fence before it
  // writes a record.
  auto* from = reinterpret_cast<std::uint64_t*>(&region_->records[(id - 1) % JAL_ERROR_RECORDS]);
  std::uint64_t words[sizeof(jal_error_record) / sizeof(std::uint64_t)];
  for (std::size_t i = 0; i < std::size(words); ++i) {
    words[i] = std::atomic_ref(from[i]).load(std::memory_order_acquire);
  }
  jal_error_record copy;
  static_assert(sizeof words == sizeof copy);
  std::memcpy(&copy, words, sizeof copy);
  if (!is_whole() || copy.id != id) return std::nullopt;
  copy.kernel[sizeof copy.kernel - 1] = '\0';
  copy.file[sizeof copy.file - 1] = '\0';
  copy.text[sizeof copy.text - 1] = '\0';
  return copy;
}

Status Session::lost() const {
  const auto cause = static_cast<jal_status_t>(std::atomic_ref(region_->lost_status).load(std::memory_order_acquire));
  if (cause == JAL_OK || cause == JAL_ERROR_DEVICE_LOST) {
    return fail(JAL_ERROR_DEVICE_LOST, "device {} is lost; jal_shutdown and jal_init again", device_);
  }
  return fail(JAL_ERROR_DEVICE_LOST, "device {} is lost because of {} ({}); jal_shutdown and jal_init again", device_,
              status_name(cause), status_text(cause));
}

std::optional<std::uint32_t> Session::take_queue_index() {
  const std::lock_guard lock(index_mutex_);
  const auto index = static_cast<std::uint32_t>(std::countr_one(queues_in_use_));
  if (index >= JAL_QUEUES_PER_CLIENT) return std::nullopt;
  queues_in_use_ |= 1u << index;
  return index;
}

void Session::return_queue_index(std::uint32_t index) {
  const std::lock_guard lock(index_mutex_);
  queues_in_use_ &= ~(1u << index);
  // The rings' memory goes back to the system; their addresses stay.
  (void)madvise(reinterpret_cast<char*>(region_) + ring_offset(index), kRingBytesMax + kArgumentRingBytesMax,
                MADV_DONTNEED);
}

}  // namespace jal::drv
