// What jal-smi shows to people. See print.hpp.
#include <spdlog/fmt/fmt.h>

#include "tools/jal-smi/print.hpp"

namespace jal::smi {
namespace {

constexpr double kGib = 1024.0 * 1024.0 * 1024.0;

const char* phase_text(std::uint32_t phase) {
#define JAL_SMI_PHASE(name, value, text) \
  if (phase == value) return text;
  JAL_PHASE_LIST(JAL_SMI_PHASE)
#undef JAL_SMI_PHASE
  return "unknown";
}

std::string optional_number(std::optional<double> value, int digits) {
  return value ? fmt::format("{:.{}f}", *value, digits) : "-";
}

std::string age_text(const std::optional<std::uint64_t>& age_ns) {
  if (!age_ns) return "-";
  const double seconds = static_cast<double>(*age_ns) * 1e-9;
  if (seconds < 10) return fmt::format("{:.0f} ms", seconds * 1e3);
  if (seconds < 600) return fmt::format("{:.0f} s", seconds);
  return fmt::format("{:.0f} min", seconds / 60);
}

std::string device_row(const Device& d) {
  if (!d.readable()) {
    return fmt::format("{:>3} {:<8} {:<10} {:<8} {:>13} {:>10} {:>12} {:>6}  {}\n     ^ {}\n", d.id,
                       d.uuid.substr(0, 8), d.model.substr(0, 10), d.state, "-/-/-", "-", "-", "-", "-", d.error_text);
  }
  const std::optional<double> busy = d.busy_share();
  return fmt::format(
      "{:>3} {:<8} {:<10} {:<8} {:>13} {:>10} {:>12} {:>6}  {:<13} {:>6}\n", d.id, d.uuid.substr(0, 8),
      d.model.substr(0, 10), d.state,
      fmt::format("{}/{:.0f}/{:.0f}", optional_number(d.average_watts(), 0), static_cast<double>(d.static_mw) * 1e-3,
                  static_cast<double>(d.sustained_mw) * 1e-3),
      fmt::format("{:.3f}", static_cast<double>(d.energy_nj) * 1e-9),
      fmt::format("{:.2f}/{:.1f}", static_cast<double>(d.hbm_used) / kGib, static_cast<double>(d.hbm_usable) / kGib),
      busy ? fmt::format("{:.1f}", *busy * 100) : "-", phase_text(d.phase), age_text(d.age_ns));
}

}  // namespace

std::string print_table(const Sample& sample, bool all) {
  const std::size_t devices = sample.device_count();
  bool emulated = false;
  for (const Instance& instance : sample.instances) {
    for (const Device& device : instance.devices) emulated = emulated || device.emulated;
  }
  std::string out = fmt::format("jal-smi {}  schema {}  {}{}  host {}\n", JAL_PROJECT_VERSION, kSchema,
                                emulated ? "EMULATED  " : "", rfc3339(sample.unix_ns).substr(0, 23) + "Z", sample.host);
  std::size_t ok = 0;
  for (const Instance& instance : sample.instances) {
    for (const Device& device : instance.devices) ok += device.state == "ok" ? 1u : 0u;
  }
  out += fmt::format("{} instance{}, {} chip{}: {} ok, {} other   power and energy: package scope, modelled\n",
                     sample.instances.size(), sample.instances.size() == 1 ? "" : "s", devices, devices == 1 ? "" : "s",
                     ok, devices - ok);
  const bool summary = devices > kTableDevices && !all;
  out += fmt::format("{:>3} {:<8} {:<10} {:<8} {:>13} {:>10} {:>12} {:>6}  {:<13} {:>6}\n", "ID", "UUID8", "MODEL",
                     "STATE", "W avg/idle/cap", "J", "HBM GiB", "BUSY%", "PHASE", "AGE");
  for (const Instance& instance : sample.instances) {
    out += fmt::format("{}{}  pid {}  {}  clock {}\n", instance.name, instance.is_private ? " (private)" : "",
                       instance.owner_pid, instance.program, instance.clock);
    if (instance.error != JAL_OK) out += fmt::format("     ^ {}\n", instance.error_text);
    std::size_t hidden = 0;
    for (const Device& device : instance.devices) {
      if (summary && device.state == "ok") {
        ++hidden;
        continue;
      }
      out += device_row(device);
    }
    if (hidden > 0) out += fmt::format("    {} chips ok, not shown (--all shows them)\n", hidden);
  }
  return out;
}

std::string print_list(const Sample& sample) {
  std::string out;
  for (const Instance& instance : sample.instances) {
    for (const Device& d : instance.devices) {
      out += fmt::format("{} {} {} {} {}\n", d.id, d.uuid.empty() ? "-" : d.uuid, d.instance,
                         d.model.empty() ? "-" : d.model, d.state);
    }
  }
  return out;
}

std::string print_fields(const Sample& sample, const std::vector<const Field*>& selected) {
  std::string out;
  for (const Instance& instance : sample.instances) {
    for (const Device& device : instance.devices) {
      out += fmt::format("chip {} {}\n", device.id, device.uuid);
      for (const Field* field : selected) {
        const std::optional<std::string> value = field->value(device);
        out += fmt::format("  {:<28} {:>22} {:<6} {}\n", field->name, value ? *value : "-", field->unit, field->kind);
      }
      if (!device.readable()) out += fmt::format("  ^ {}\n", device.error_text);
    }
  }
  return out;
}

std::string print_field_table() {
  std::string out = fmt::format("{:<28} {:<6} {:<9} {}\n", "field", "unit", "kind", "meaning");
  for (const Field& field : fields()) {
    out += fmt::format("{:<28} {:<6} {:<9} {}\n", field.name, field.unit, field.kind, field.meaning);
  }
  return out;
}

}  // namespace jal::smi
