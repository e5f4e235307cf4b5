// Fills a sample from the telemetry files of the rendezvous directory. See sample.hpp.
#include <jal/abi/telemetry.h>
#include <spdlog/fmt/fmt.h>
#include <sys/utsname.h>

#include <chrono>

#include "driver/base/error_frames.hpp"
#include "driver/base/runtime_dir.hpp"
#include "driver/telemetry_reader.hpp"
#include "tools/jal-smi/sample.hpp"

namespace jal::smi {
namespace {

std::uint64_t now_unix_ns() {
  return static_cast<std::uint64_t>(
      std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::system_clock::now().time_since_epoch())
          .count());
}

std::string uuid_text(std::uint64_t high, std::uint64_t low) {
  return fmt::format("{:08x}-{:04x}-{:04x}-{:04x}-{:012x}", high >> 32, high >> 16 & 0xffff, high & 0xffff, low >> 48,
                     low & 0xffffffffffffull);
}

const char* clock_text(std::uint32_t kind) { return kind == JAL_CLOCK_LIVE ? "live" : "virtual"; }

std::string state_text(std::uint64_t state) {
  switch (state) {
    case JAL_DEVICE_STATE_BOOTING:
      return "booting";
    case JAL_DEVICE_STATE_OK:
      return "ok";
    case JAL_DEVICE_STATE_FAILED:
      return "failed";
    case JAL_DEVICE_STATE_LOST:
      return "lost";
    default:
      return fmt::format("state{}", state);
  }
}

void fill_device(const jal_telemetry_page& page, std::uint64_t now_ns, bool is_alive, Device* d) {
  const auto value = [&](std::uint32_t tag, std::uint32_t index = 0) {
    return drv::find_value(page, tag, index).value_or(0);
  };
  d->model = page.model;
  d->uuid = uuid_text(value(JAL_TAG_UUID, 0), value(JAL_TAG_UUID, 1));
  d->state = state_text(value(JAL_TAG_STATE));
  if (page.update_unix_ns != 0) d->age_ns = now_ns > page.update_unix_ns ? now_ns - page.update_unix_ns : 0;
  const std::uint64_t deadline_ns = value(JAL_TAG_PENDING_DEADLINE_UNIX_NS);
  if (d->state == "ok" && deadline_ns != 0 && now_ns > deadline_ns) d->state = "hung";
  if (!is_alive) d->state = "dead";
  d->heartbeat = value(JAL_TAG_HEARTBEAT);
  d->clock_ps = value(JAL_TAG_CLOCK_PS);
  d->energy_nj = value(JAL_TAG_ENERGY_NJ);
  d->energy_epoch = value(JAL_TAG_ENERGY_EPOCH);
  d->static_mw = value(JAL_TAG_POWER_STATIC_MW);
  d->rated_mw = value(JAL_TAG_POWER_RATED_MW);
  d->sustained_mw = value(JAL_TAG_POWER_SUSTAINED_MW);
  for (std::uint32_t unit = 0; unit < JAL_UNIT_COUNT; ++unit) {
    d->unit_energy_nj[unit] = value(JAL_TAG_UNIT_ENERGY_NJ, unit);
    d->unit_busy_ps[unit] = value(JAL_TAG_UNIT_BUSY_PS, unit);
    d->unit_state[unit] = static_cast<std::uint32_t>(value(JAL_TAG_UNIT_STATE, unit));
  }
  d->phase = static_cast<std::uint32_t>(value(JAL_TAG_PHASE));
  for (std::uint32_t phase = 0; phase < JAL_PHASE_COUNT; ++phase) {
    d->phase_energy_nj[phase] = value(JAL_TAG_PHASE_ENERGY_NJ, phase);
    d->phase_time_ps[phase] = value(JAL_TAG_PHASE_TIME_PS, phase);
    d->phase_tokens[phase] = value(JAL_TAG_PHASE_TOKENS, phase);
  }
  d->hbm_total = value(JAL_TAG_HBM_TOTAL);
  d->hbm_usable = value(JAL_TAG_HBM_USABLE);
  d->hbm_reserved = value(JAL_TAG_HBM_RESERVED);
  d->hbm_used = value(JAL_TAG_HBM_USED);
  d->bytes_local = value(JAL_TAG_BYTES_LOCAL);
  d->bytes_remote = value(JAL_TAG_BYTES_REMOTE);
  d->bytes_collective = value(JAL_TAG_BYTES_COLLECTIVE);
  d->bytes_noc = value(JAL_TAG_BYTES_NOC);
  d->bytes_host = value(JAL_TAG_BYTES_HOST);
  d->packets = value(JAL_TAG_PACKETS);
  d->dispatches = value(JAL_TAG_DISPATCHES);
  d->errors = value(JAL_TAG_ERRORS);
  d->clients = value(JAL_TAG_CLIENTS);
  d->queues = value(JAL_TAG_QUEUES);
  d->pending = value(JAL_TAG_PENDING);
  d->cores = value(JAL_TAG_CORES);
  d->dispatch_time_ps = value(JAL_TAG_DISPATCH_TIME_PS);
}

Instance read_instance(const drv::InstanceFile& file, std::uint64_t now_ns, std::uint32_t first_id) {
  Instance instance;
  instance.name = file.name;
  instance.path = file.path;
  instance.alive = file.is_alive;
  drv::Result<drv::TelemetryFile> opened = drv::TelemetryFile::open(file.path);
  if (!opened.ok()) {
    instance.error = opened.code();
    instance.error_text = drv::last_error_message();
    return instance;
  }
  const jal_telemetry_head& head = opened->head();
  instance.is_private = head.is_private != 0;
  instance.owner_pid = head.owner_pid;
  instance.program = head.program;
  instance.version = head.version_text;
  instance.start_unix_ns = head.start_unix_ns;
  instance.clock = clock_text(head.clock_kind);
  for (std::uint32_t i = 0; i < head.device_count; ++i) {
    Device device;
    device.id = first_id + i;
    device.index = i;
    device.instance = file.name;
    device.clock = instance.clock;
    device.emulated = head.emulated != 0;
    jal_telemetry_page page;
    const drv::Status status = opened->read(i, &page);
    if (status.ok()) {
      fill_device(page, now_ns, file.is_alive, &device);
    } else {
      device.state = "unreadable";
      device.error = status.code();
      device.error_text = drv::last_error_message();
    }
    instance.devices.push_back(device);
  }
  return instance;
}

}  // namespace

Sample collect() {
  Sample sample;
  sample.unix_ns = now_unix_ns();
  utsname names{};
  sample.host = uname(&names) == 0 ? names.nodename : "";
  std::string dir;
  std::string error;
  // A directory that does not exist yet just holds no instance.
  sample.nothing_found = drv::runtime_dir(false, &dir, &error) != JAL_OK
                             ? error
                             : "nothing in " + dir + "; start a program that uses libjal, or set JAL_RUNTIME_DIR";
  const drv::Result<std::vector<drv::InstanceFile>> files = drv::list_instances();
  if (!files.ok()) {
    sample.error = files.code();
    sample.error_text = drv::last_error_message();
    return sample;
  }
  std::uint32_t next_id = 0;
  for (const drv::InstanceFile& file : *files) {
    sample.instances.push_back(read_instance(file, sample.unix_ns, next_id));
    next_id += static_cast<std::uint32_t>(sample.instances.back().devices.size());
  }
  return sample;
}

}  // namespace jal::smi
