// Devices. Contract: jal/device.h, jal/telemetry.h.
#include <jal/device.h>
#include <jal/telemetry.h>

#include <algorithm>
#include <cstring>

#include "driver/telemetry_reader.hpp"
#include "libjal/call.hpp"

using namespace jal::face;  // NOLINT: this file is nothing but its C face

namespace {

/// 8-4-4-4-12 hexadecimal of the two words, most significant byte first.
void write_uuid(const std::uint64_t (&uuid)[2], char (&out)[40]) {
  const std::string hex = fmt::format("{:016x}{:016x}", uuid[0], uuid[1]);
  const std::string text = hex.substr(0, 8) + '-' + hex.substr(8, 4) + '-' + hex.substr(12, 4) + '-' +
                           hex.substr(16, 4) + '-' + hex.substr(20);
  std::memcpy(out, text.c_str(), text.size() + 1);
}

}  // namespace

jal_status_t jal_device_count(uint32_t* out_count) noexcept {
  return guarded([&]() -> Status {
    JAL_RETURN_IF_ERROR(check_pointer(out_count, "out_count"));
    auto library = jal::rt::Library::get();
    if (!library.ok()) return library.status();
    *out_count = (*library)->device_count();
    return {};
  });
}

jal_status_t jal_device_get(uint32_t index, jal_device_t* out_device) noexcept {
  return guarded([&]() -> Status {
    JAL_RETURN_IF_ERROR(check_pointer(out_device, "out_device"));
    auto library = jal::rt::Library::get();
    if (!library.ok()) return library.status();
    auto handle = (*library)->device(index);
    if (!handle.ok()) return handle.status();
    *out_device = handle_of<jal_device_t>(*handle);
    return {};
  });
}

jal_status_t jal_device_get_info(jal_device_t device, jal_device_info* out_info) noexcept {
  return with(device, [&](jal::rt::Device& object) -> Status {
    JAL_RETURN_IF_ERROR(check_struct(out_info, "jal_device_info"));
    const jal_chip_info& chip = object.chip();
    jal_device_info info{};
    info.struct_size = sizeof info;
    info.index = object.index();
    std::memcpy(info.model, chip.model, sizeof info.model);
    write_uuid(chip.uuid, info.uuid);
    info.cores = chip.cores;
    info.slices = chip.slices;
    info.grid_rows = chip.grid_rows;
    info.grid_cols = chip.grid_cols;
    info.l1_bytes = chip.l1_bytes;
    info.clock_kind = chip.clock_kind;
    info.slice_bytes = chip.slice_bytes;
    info.chip_bytes = chip.chip_bytes;
    info.reserved_bytes = chip.reserved_bytes;
    info.hbm_bytes_per_second = chip.hbm_bytes_per_second;
    info.clock_hz = chip.clock_hz;
    info.core_mask = object.core_mask();
    info.slice_mask = object.slice_mask();
    info.features = object.session().features();
    info.rated_milliwatts = chip.rated_milliwatts;
    info.sustained_milliwatts = chip.sustained_milliwatts;
    info.abi_version = object.session().abi_version();
    info.page_bytes = JAL_PAGE_BYTES;
    const char* version = object.session().firmware_version();
    std::memcpy(info.firmware_version, version, strnlen(version, sizeof info.firmware_version - 1));
    *out_info = info;
    return {};
  });
}

jal_status_t jal_device_idle(jal_device_t device, uint64_t idle_ns, uint64_t deadline_ns) noexcept {
  return with(device, [&](jal::rt::Device& object) -> Status {
    return object.run_blocking(deadline_ns, [&](jal::rt::Stream& stream) { return stream.idle(idle_ns); });
  });
}

jal_status_t jal_telemetry_read(jal_device_t device, jal_telemetry* out_telemetry) noexcept {
  return with(device, [&](jal::rt::Device& object) -> Status {
    JAL_RETURN_IF_ERROR(check_struct(out_telemetry, "jal_telemetry"));
    auto library = jal::rt::Library::get();
    if (!library.ok()) return library.status();
    jal_telemetry_page page;
    JAL_RETURN_IF_ERROR((*library)->read_telemetry(object.index(), &page));
    jal_telemetry all{};
    all.struct_size = sizeof all;
    const bool is_emulated = (object.session().features() & JAL_FEATURE_EMULATED) != 0;
    all.figure_kind = is_emulated ? JAL_FIGURE_MODELLED : JAL_FIGURE_MEASURED;
    all.scope = JAL_SCOPE_PACKAGE;
    all.clock_kind = object.chip().clock_kind;
    const std::uint32_t count = std::min(page.count, JAL_TELEMETRY_ENTRIES);
    for (std::uint32_t i = 0; i < count; ++i) {
      const jal_telemetry_entry& entry = page.entry[i];
      const auto value32 = static_cast<std::uint32_t>(entry.value);
      switch (entry.tag) {
        case JAL_TAG_STATE:
          all.state = value32;
          break;
        case JAL_TAG_PHASE:
          all.phase = value32;
          break;
        case JAL_TAG_UNIT_ENERGY_NJ:
          if (entry.index < std::size(all.unit_energy_nj)) all.unit_energy_nj[entry.index] = entry.value;
          break;
        case JAL_TAG_UNIT_BUSY_PS:
          if (entry.index < std::size(all.unit_busy_ps)) all.unit_busy_ps[entry.index] = entry.value;
          break;
        case JAL_TAG_UNIT_STATE:
          if (entry.index < std::size(all.unit_state)) all.unit_state[entry.index] = value32;
          break;
        case JAL_TAG_PHASE_ENERGY_NJ:
          if (entry.index < std::size(all.phase_energy_nj)) all.phase_energy_nj[entry.index] = entry.value;
          break;
        case JAL_TAG_PHASE_TIME_PS:
          if (entry.index < std::size(all.phase_time_ps)) all.phase_time_ps[entry.index] = entry.value;
          break;
        case JAL_TAG_PHASE_TOKENS:
          if (entry.index < std::size(all.phase_tokens)) all.phase_tokens[entry.index] = entry.value;
          break;
        default: {
          const struct {
            std::uint32_t tag;
            std::uint64_t* field;
          } plain[] = {
              {JAL_TAG_CLOCK_PS, &all.clock_ps},
              {JAL_TAG_ENERGY_NJ, &all.energy_nj},
              {JAL_TAG_ENERGY_EPOCH, &all.energy_epoch},
              {JAL_TAG_POWER_STATIC_MW, &all.static_milliwatts},
              {JAL_TAG_POWER_RATED_MW, &all.rated_milliwatts},
              {JAL_TAG_POWER_SUSTAINED_MW, &all.sustained_milliwatts},
              {JAL_TAG_HBM_TOTAL, &all.hbm_total},
              {JAL_TAG_HBM_USABLE, &all.hbm_usable},
              {JAL_TAG_HBM_RESERVED, &all.hbm_reserved},
              {JAL_TAG_HBM_USED, &all.hbm_used},
              {JAL_TAG_BYTES_LOCAL, &all.bytes_local},
              {JAL_TAG_BYTES_REMOTE, &all.bytes_remote},
              {JAL_TAG_BYTES_COLLECTIVE, &all.bytes_collective},
              {JAL_TAG_BYTES_NOC, &all.bytes_noc},
              {JAL_TAG_BYTES_HOST, &all.bytes_host},
              {JAL_TAG_PACKETS, &all.packets},
              {JAL_TAG_DISPATCHES, &all.dispatches},
              {JAL_TAG_DISPATCH_TIME_PS, &all.dispatch_time_ps},
              {JAL_TAG_ERRORS, &all.errors},
          };
          for (const auto& one : plain) {
            if (one.tag == entry.tag) *one.field = entry.value;
          }
        }
      }
    }
    *out_telemetry = all;
    return {};
  });
}
