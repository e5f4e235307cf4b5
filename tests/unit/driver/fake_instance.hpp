// An instance that is nothing but a table of functions: for what a sound emulator never does.
//
// Its device answers mailboxes with ECHO's words unless a test says otherwise, and never executes a packet.
#pragma once
#include <jal/abi/instance.h>

#include <atomic>
#include <cstdio>
#include <cstring>
#include <functional>

namespace jal::drv {

struct FakeInstance {
  // What the device writes into the region at attach; a test changes it first.
  jal_handshake hello = {JAL_DEVICE_MAGIC,
                         JAL_ABI_VERSION_MIN,
                         JAL_ABI_VERSION_MAX,
                         JAL_ABI_VERSION_MAX,
                         JAL_FEATURE_HOST_VA,
                         "9.9.9",
                         {},
                         0,
                         {}};
  jal_chip_info chip = make_chip();
  jal_status_t open_status = JAL_OK;
  jal_status_t attach_status = JAL_OK;
  std::function<std::uint32_t(jal_client_region&)> on_step = answer_mailbox;
  jal_client_region* region = nullptr;
  int closes = 0, detaches = 0;

  static FakeInstance& current() {
    static FakeInstance* one = nullptr;
    if (one == nullptr) one = new FakeInstance;
    return *one;
  }
  static void reset() { current() = FakeInstance(); }

  static jal_chip_info make_chip() {
    jal_chip_info chip = {};
    std::strcpy(chip.model, "fake");
    chip.cores = chip.slices = chip.grid_rows = chip.grid_cols = 1;
    chip.slice_bytes = 1u << 20;
    return chip;
  }
  static std::uint32_t answer_mailbox(jal_client_region& region) {
    const std::uint32_t sequence = std::atomic_ref(region.request.sequence).load(std::memory_order_acquire);
    if (sequence == region.response.sequence) return JAL_STEP_IDLE;
    region.response.opcode = 0;
    std::memcpy(region.response.word, region.request.word, sizeof region.response.word);
    std::atomic_ref(region.response.sequence).store(sequence, std::memory_order_release);
    return JAL_STEP_WORKED;
  }

  static const jal_instance_api& api() {
    static const jal_instance_api table = {
        sizeof(jal_instance_api),
        JAL_INSTANCE_API_VERSION,
        [](const jal_instance_options*, jal_instance** out, char* error, std::size_t bytes) {
          std::snprintf(error, bytes, "%s", "the fake was told to refuse");
          if (current().open_status == JAL_OK) *out = reinterpret_cast<jal_instance*>(&current());
          return current().open_status;
        },
        [](jal_instance*) { ++current().closes; },
        [](jal_instance*) -> std::uint32_t { return 2; },
        [](jal_instance*, std::uint32_t, void* region, std::uint64_t, jal_attachment** out, char*, std::size_t) {
          if (current().attach_status != JAL_OK) return current().attach_status;
          current().region = static_cast<jal_client_region*>(region);
          current().region->chip = current().chip;
          current().region->device = current().hello;
          *out = reinterpret_cast<jal_attachment*>(&current());
          return JAL_OK;
        },
        [](jal_attachment*) { ++current().detaches; },
        [](jal_attachment*) { return current().on_step(*current().region); },
        [](jal_instance*) -> const char* { return "/nonexistent"; },
        [](jal_instance*, jal_trace_sink, void*) {},
        [](jal_instance*) -> const char* const* { return nullptr; },
        [](jal_instance*, const char*, double*, const char**, const char**) -> jal_status_t {
          return JAL_ERROR_INVALID_ARGUMENT;
        },
        {}};
    return table;
  }
};

}  // namespace jal::drv
