// The exported table of jal/abi/instance.h: the C face of Instance.
//
// Invariant: no exception leaves; a failed call leaves its outputs alone and writes a message.
#include <jal/abi/instance.h>
#include <pthread.h>

#include <algorithm>
#include <cstring>
#include <exception>
#include <memory>
#include <mutex>
#include <new>
#include <string>
#include <vector>

#include "emulator/instance/fidelity.hpp"
#include "emulator/instance/instance.hpp"

struct jal_instance {
  std::unique_ptr<jal::emu::Instance> instance;
};

struct jal_attachment {
  jal_instance* owner;
  std::uint32_t device;
  std::uint32_t client;
};

namespace {

using jal::emu::Instance;

/// Live instances, for the child of a fork: it inherits their locks' descriptors and must let go of them.
struct Live {
  std::mutex mutex;
  std::vector<Instance*> instances;
};
Live& live() {
  static Live* const all = new Live;  // never destroyed: a fork may come during exit
  return *all;
}

void watch_forks() {
  static std::once_flag once;
  std::call_once(once, [] {
    pthread_atfork([] { live().mutex.lock(); }, [] { live().mutex.unlock(); },
                   [] {
                     for (Instance* instance : live().instances) instance->abandon();
                     live().mutex.unlock();
                   });
  });
}

jal_status_t say(jal_status_t status, const std::string& text, char* error, std::size_t error_bytes) {
  if (error != nullptr && error_bytes > 0) {
    const std::size_t length = std::min(text.size(), error_bytes - 1);
    std::memcpy(error, text.data(), length);
    error[length] = '\0';
  }
  return status;
}

/// Runs work(&message); what it throws (memory that the system refuses) becomes a status.
template <typename Work>
jal_status_t guarded(char* error, std::size_t error_bytes, Work&& work) {
  std::string message;
  try {
    const jal_status_t status = work(&message);
    return status == JAL_OK ? JAL_OK : say(status, message, error, error_bytes);
  } catch (const std::bad_alloc&) {
    return say(JAL_ERROR_OUT_OF_HOST_MEMORY, "the host has no memory left for the emulator", error, error_bytes);
  } catch (const std::exception& problem) {
    return say(JAL_ERROR_INTERNAL, std::string("the emulator failed: ") + problem.what(), error, error_bytes);
  }
}

jal_status_t api_open(const jal_instance_options* options, jal_instance** out, char* error, std::size_t error_bytes) {
  return guarded(error, error_bytes, [&](std::string* message) {
    jal::emu::Settings settings;
    jal_status_t status = jal::emu::read_settings(options, &settings, message);
    if (status != JAL_OK) return status;
    watch_forks();
    auto made = std::make_unique<jal_instance>();
    made->instance = Instance::open(settings, &status, message);
    if (status != JAL_OK) return status;
    const std::lock_guard lock(live().mutex);
    live().instances.push_back(made->instance.get());
    *out = made.release();
    return JAL_OK;
  });
}

void api_close(jal_instance* instance) {
  if (instance == nullptr || instance->instance->is_abandoned()) return;
  {
    const std::lock_guard lock(live().mutex);
    std::erase(live().instances, instance->instance.get());
  }
  delete instance;
}

std::uint32_t api_device_count(jal_instance* instance) { return instance->instance->device_count(); }

jal_status_t api_attach(jal_instance* instance, std::uint32_t device, void* region, std::uint64_t region_bytes,
                        jal_attachment** out, char* error, std::size_t error_bytes) {
  return guarded(error, error_bytes, [&](std::string* message) {
    auto made = std::make_unique<jal_attachment>(jal_attachment{instance, device, 0});
    const jal_status_t status = instance->instance->attach(device, region, region_bytes, &made->client, message);
    if (status == JAL_OK) *out = made.release();
    return status;
  });
}

void api_detach(jal_attachment* attachment) {
  if (attachment == nullptr) return;
  attachment->owner->instance->detach(attachment->device, attachment->client);
  delete attachment;
}

std::uint32_t api_step(jal_attachment* attachment) { return attachment->owner->instance->step(attachment->device); }

const char* api_telemetry_path(jal_instance* instance) { return instance->instance->telemetry_path().c_str(); }

void api_set_trace_sink(jal_instance* instance, jal_trace_sink sink, void* user) {
  instance->instance->set_trace_sink(sink, user);
}

const char* const* api_fidelity(jal_instance*) { return jal::emu::fidelity_table(); }

jal_status_t api_model_value(jal_instance* instance, const char* name, double* out_value, const char** out_unit,
                             const char** out_source) {
  const auto& figures = instance->instance->model().figures;
  const auto found = figures.find(name);
  if (found == figures.end()) return JAL_ERROR_INVALID_ARGUMENT;
  if (out_value != nullptr) *out_value = found->second.value;
  if (out_unit != nullptr) *out_unit = found->second.unit.c_str();
  if (out_source != nullptr) *out_source = found->second.source.c_str();
  return JAL_OK;
}

constexpr jal_instance_api kApi = {
    sizeof(jal_instance_api),
    JAL_INSTANCE_API_VERSION,
    api_open,
    api_close,
    api_device_count,
    api_attach,
    api_detach,
    api_step,
    api_telemetry_path,
    api_set_trace_sink,
    api_fidelity,
    api_model_value,
    {},
};

}  // namespace

extern "C" __attribute__((visibility("default"))) const jal_instance_api* jal_instance_get_api(
    std::uint32_t abi_version);
const jal_instance_api* jal_instance_get_api(std::uint32_t abi_version) {
  return abi_version == JAL_INSTANCE_API_VERSION ? &kApi : nullptr;
}
