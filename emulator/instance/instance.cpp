// Contract: instance.hpp.
#include "emulator/instance/instance.hpp"

#include <jal/abi/session.h>
#include <sys/mman.h>
#include <sys/random.h>

#include <bit>
#include <new>

#include "emulator/hbm/extent_space.hpp"

namespace jal::emu {
namespace {

/// A random identity, version 4 of RFC 9562.
bool random_uuid(std::uint64_t (&uuid)[2]) {
  if (getrandom(uuid, sizeof uuid, 0) != static_cast<ssize_t>(sizeof uuid)) return false;
  uuid[0] = (uuid[0] & ~0xf000ull) | 0x4000ull;
  uuid[1] = (uuid[1] & ~(3ull << 62)) | (2ull << 62);
  return true;
}

std::string versions(const jal_handshake& side) {
  return std::to_string(side.abi_min) + ".." + std::to_string(side.abi_max);
}

std::string handshake_refusal(jal_status_t status, const jal_client_region& region) {
  const std::string both =
      "libjal speaks contract versions " + versions(region.client) + ", the firmware " + versions(region.device);
  if (status == JAL_ERROR_ABI_TOO_OLD) return both + "; update the firmware or emulator";
  if (status == JAL_ERROR_ABI_TOO_NEW) return both + "; update libjal";
  return "the firmware refused the handshake (" + both + "); use a libjal and an emulator of one release";
}

}  // namespace

void Instance::ControlDeleter::operator()(fw::Control* control) const {
  control->~Control();
  munmap(control, sizeof *control);
}

std::unique_ptr<Instance> Instance::open(const Settings& settings, jal_status_t* status, std::string* error) {
  std::unique_ptr<Instance> instance(new Instance(settings));
  *status = instance->start(settings, error);
  if (*status != JAL_OK) instance.reset();
  return instance;
}

jal_status_t Instance::start(const Settings& settings, std::string* error) {
  if (!load_model(settings.model, &model_, error)) return JAL_ERROR_BAD_MODEL_FILE;
  if (const jal_status_t status = telemetry_.open(settings.name, settings.device_count, error); status != JAL_OK)
    return status;
  for (std::uint32_t index = 0; index < settings.device_count; ++index) {
    Device::Options options;
    options.index = index;
    options.sanitize = settings.sanitize;
    options.kernel_deadline_ns = settings.kernel_deadline_ns;
    if (!random_uuid(options.uuid)) {
      *error = "the system gives no random bytes for a device's identity (getrandom)";
      return JAL_ERROR_INTERNAL;
    }
    auto chip = std::make_unique<Chip>(index, settings.log_level);
    chip->device = std::make_unique<Device>(model_, budget_, workers_, telemetry_.page(index), options);
    chip->board.reset(new hal::Board{*chip->device});
    // Control's tables are large and mostly empty; in memory of its own they cost what is used.
    void* memory = map_lazy_zeroes(sizeof(fw::Control));
    if (memory == nullptr) {
      *error = "the system refuses " + bytes_text(sizeof(fw::Control)) + " for the firmware's tables";
      return JAL_ERROR_OUT_OF_HOST_MEMORY;
    }
    chip->control.reset(new (memory) fw::Control(*chip->board));
    chip->control->boot();
    chip->log.drain(*chip->device->log_ring());
    chips_.push_back(std::move(chip));
  }
  telemetry_.publish();
  return JAL_OK;
}

Instance::~Instance() {
  for (std::uint32_t device = 0; device < chips_.size(); ++device) {
    for (std::uint32_t left = chips_[device]->clients; left != 0; left &= left - 1) {
      detach(device, static_cast<std::uint32_t>(std::countr_zero(left)));
    }
  }
}

void Instance::abandon() {
  is_abandoned_ = true;
  telemetry_.abandon();
}

jal_status_t Instance::attach(std::uint32_t device, void* region, std::uint64_t region_bytes, std::uint32_t* out_client,
                              std::string* error) {
  if (device >= chips_.size()) {
    *error = "device " + std::to_string(device) + ": the instance has " + std::to_string(chips_.size()) +
             "; raise JAL_DEVICES (at most 8)";
    return JAL_ERROR_NO_DEVICE;
  }
  if (region == nullptr || reinterpret_cast<std::uintptr_t>(region) % 4096 != 0 ||
      region_bytes < sizeof(jal_client_region)) {
    *error = "client region of " + std::to_string(region_bytes) + " bytes: must be aligned to 4096 and at least " +
             std::to_string(sizeof(jal_client_region)) + " bytes";
    return JAL_ERROR_INVALID_ARGUMENT;
  }
  Chip& chip = *chips_[device];
  const std::lock_guard lock(chip.lock);
  const auto client = static_cast<std::uint32_t>(std::countr_one(chip.clients));
  if (client >= hal::kMaxClients) {
    *error = "device " + std::to_string(device) + " serves " + std::to_string(hal::kMaxClients) +
             " clients, its maximum; close one";
    return JAL_ERROR_TOO_MANY_CLIENTS;
  }
  chip.device->set_client_region(client, region, region_bytes);
  const jal_status_t status = chip.control->attach(client);
  chip.log.drain(*chip.device->log_ring());
  if (status != JAL_OK) {
    chip.device->set_client_region(client, nullptr, 0);
    *error = handshake_refusal(status, *static_cast<const jal_client_region*>(region));
    return status;
  }
  chip.clients |= 1u << client;
  *out_client = client;
  return JAL_OK;
}

void Instance::detach(std::uint32_t device, std::uint32_t client) {
  if (is_abandoned_) return;
  Chip& chip = *chips_[device];
  const std::lock_guard lock(chip.lock);
  chip.control->detach(client);
  chip.log.drain(*chip.device->log_ring());
  chip.device->set_client_region(client, nullptr, 0);
  chip.clients &= ~(1u << client);
}

std::uint32_t Instance::step(std::uint32_t device) {
  if (is_abandoned_) return JAL_STEP_LOST;
  Chip& chip = *chips_[device];
  const std::unique_lock lock(chip.lock, std::try_to_lock);
  if (!lock.owns_lock()) return JAL_STEP_BUSY;
  const fw::StepResult result = chip.control->step();
  chip.log.drain(*chip.device->log_ring());
  switch (result) {
    case fw::StepResult::idle:
      return JAL_STEP_IDLE;
    case fw::StepResult::worked:
      return JAL_STEP_WORKED;
    case fw::StepResult::lost:
      break;
  }
  return JAL_STEP_LOST;
}

void Instance::set_trace_sink(jal_trace_sink sink, void* user) {
  for (auto& chip : chips_) {
    const std::lock_guard lock(chip->lock);
    chip->device->trace().set(sink, user);
  }
}

}  // namespace jal::emu
