// The field table of jal-smi. See fields.hpp.
#include "tools/jal-smi/fields.hpp"

#include <spdlog/fmt/fmt.h>

namespace jal::smi {
namespace {

using Text = std::optional<std::string>;

template <typename T>
Text number(const Device& device, T value) {
  if (!device.readable()) return std::nullopt;
  return fmt::format("{}", value);
}

Text scaled(const Device& device, std::optional<double> value, int digits) {
  if (!device.readable() || !value) return std::nullopt;
  return fmt::format("{:.{}f}", *value, digits);
}

Text joules(const Device& device, std::uint64_t energy_nj) {
  return scaled(device, static_cast<double>(energy_nj) * 1e-9, 9);
}

Text seconds(const Device& device, std::uint64_t time_ps) {
  return scaled(device, static_cast<double>(time_ps) * 1e-12, 12);
}

Text watts(const Device& device, std::uint64_t power_mw) {
  return scaled(device, static_cast<double>(power_mw) * 1e-3, 3);
}

const char* phase_name(std::uint32_t phase) {
  switch (phase) {
#define JAL_SMI_PHASE(name, value, text) \
  case value:                            \
    return text;
    JAL_PHASE_LIST(JAL_SMI_PHASE)
#undef JAL_SMI_PHASE
    default:
      return "unknown";
  }
}

template <std::uint32_t kUnit>
Text unit_joules(const Device& d) {
  return joules(d, d.unit_energy_nj[kUnit]);
}

template <std::uint32_t kPhase>
Text phase_joules(const Device& d) {
  return joules(d, d.phase_energy_nj[kPhase]);
}

template <std::uint32_t kPhase>
Text phase_seconds(const Device& d) {
  return seconds(d, d.phase_time_ps[kPhase]);
}

template <std::uint32_t kPhase>
Text phase_tokens(const Device& d) {
  return number(d, d.phase_tokens[kPhase]);
}

std::vector<Field> make_fields() {
  std::vector<Field> list = {
      {"id", "", "", "number of the chip in this listing",
       [](const Device& d) -> Text { return fmt::format("{}", d.id); }},
      {"uuid", "", "", "identity of the chip",
       [](const Device& d) -> Text { return d.uuid.empty() ? Text{} : d.uuid; }},
      {"instance", "", "", "instance that hosts the chip", [](const Device& d) -> Text { return d.instance; }},
      {"index", "", "", "number of the chip within its instance",
       [](const Device& d) -> Text { return fmt::format("{}", d.index); }},
      {"model", "", "", "model file", [](const Device& d) -> Text { return d.model.empty() ? Text{} : d.model; }},
      {"state", "", "", "booting, ok, failed, lost, hung or dead", [](const Device& d) -> Text { return d.state; }},
      {"clock", "", "", "virtual: advances by modelled work only; live: follows the wall",
       [](const Device& d) -> Text { return d.clock; }},
      {"age_ns", "ns", "measured", "host time since the chip last published",
       [](const Device& d) { return d.age_ns ? number(d, *d.age_ns) : Text{}; }},
      {"time.device_s", "s", "modelled", "device time", [](const Device& d) { return seconds(d, d.clock_ps); }},
      {"time.dispatch_s", "s", "modelled", "device time in which a kernel ran",
       [](const Device& d) { return seconds(d, d.dispatch_time_ps); }},
      {"power.avg_w", "W", "modelled", "mean package power over device time",
       [](const Device& d) { return scaled(d, d.average_watts(), 3); }},
      {"power.static_w", "W", "modelled", "package power while idle",
       [](const Device& d) { return watts(d, d.static_mw); }},
      {"power.sustained_w", "W", "modelled", "sustained package limit",
       [](const Device& d) { return watts(d, d.sustained_mw); }},
      {"power.rated_w", "W", "modelled", "rated package limit", [](const Device& d) { return watts(d, d.rated_mw); }},
      {"energy.j", "J", "modelled", "package energy", [](const Device& d) { return joules(d, d.energy_nj); }},
      {"energy.epoch", "", "", "resets of the energy counters; a difference across epochs means nothing",
       [](const Device& d) { return number(d, d.energy_epoch); }},
      {"phase", "", "", "phase of the packet executed last",
       [](const Device& d) -> Text { return d.readable() ? Text{phase_name(d.phase)} : Text{}; }},
      {"memory.total_bytes", "bytes", "modelled", "HBM of the chip",
       [](const Device& d) { return number(d, d.hbm_total); }},
      {"memory.usable_bytes", "bytes", "modelled", "HBM that clients can allocate",
       [](const Device& d) { return number(d, d.hbm_usable); }},
      {"memory.reserved_bytes", "bytes", "modelled", "HBM kept by firmware",
       [](const Device& d) { return number(d, d.hbm_reserved); }},
      {"memory.used_bytes", "bytes", "modelled", "HBM granted to clients",
       [](const Device& d) { return number(d, d.hbm_used); }},
      {"bytes.local", "bytes", "modelled", "HBM bytes between cores and their own slices",
       [](const Device& d) { return number(d, d.bytes_local); }},
      {"bytes.remote", "bytes", "modelled", "HBM bytes between cores and other slices",
       [](const Device& d) { return number(d, d.bytes_remote); }},
      {"bytes.collective", "bytes", "modelled", "bytes over the collective network",
       [](const Device& d) { return number(d, d.bytes_collective); }},
      {"bytes.noc", "bytes", "modelled", "bytes over the NoC", [](const Device& d) { return number(d, d.bytes_noc); }},
      {"bytes.host", "bytes", "modelled", "bytes copied from and to the host",
       [](const Device& d) { return number(d, d.bytes_host); }},
      {"packets", "", "measured", "packets completed", [](const Device& d) { return number(d, d.packets); }},
      {"dispatches", "", "measured", "kernels completed", [](const Device& d) { return number(d, d.dispatches); }},
      {"errors", "", "measured", "error records written", [](const Device& d) { return number(d, d.errors); }},
      {"clients", "", "measured", "attached clients", [](const Device& d) { return number(d, d.clients); }},
      {"queues", "", "measured", "queues in use", [](const Device& d) { return number(d, d.queues); }},
      {"pending", "", "measured", "packets published and not completed",
       [](const Device& d) { return number(d, d.pending); }},
      {"cores", "", "", "cores of the chip", [](const Device& d) { return number(d, d.cores); }},
  };
#define JAL_SMI_UNIT(name, value, text) \
  list.push_back({"unit." text ".energy_j", "J", "modelled", "energy of power unit " text, unit_joules<value>});
  JAL_UNIT_LIST(JAL_SMI_UNIT)
#undef JAL_SMI_UNIT
#define JAL_SMI_PHASE(name, value, text)                                                                              \
  list.push_back({"phase." text ".energy_j", "J", "modelled", "package energy in phase " text, phase_joules<value>}); \
  list.push_back({"phase." text ".time_s", "s", "modelled", "device time in phase " text, phase_seconds<value>});     \
  list.push_back({"phase." text ".tokens", "", "measured", "tokens counted in phase " text, phase_tokens<value>});
  JAL_PHASE_LIST(JAL_SMI_PHASE)
#undef JAL_SMI_PHASE
  return list;
}

}  // namespace

const std::vector<Field>& fields() {
  static const std::vector<Field> list = make_fields();
  return list;
}

std::vector<const Field*> select_fields(const std::vector<std::string>& names, std::string* unknown) {
  std::vector<const Field*> selected;
  for (const std::string& name : names) {
    const Field* found = nullptr;
    for (const Field& field : fields()) {
      if (name == field.name) found = &field;
    }
    if (found == nullptr) {
      *unknown = name;
      return {};
    }
    selected.push_back(found);
  }
  return selected;
}

}  // namespace jal::smi
