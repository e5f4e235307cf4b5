// JSON and CSV of jal-smi. See print.hpp; the schema is described in jal-smi.1.
#include <cctype>
#include <nlohmann/json.hpp>

#include "tools/jal-smi/print.hpp"

namespace jal::smi {
namespace {

using Json = nlohmann::ordered_json;

double from_nano(std::uint64_t value) { return static_cast<double>(value) * 1e-9; }
double from_pico(std::uint64_t value) { return static_cast<double>(value) * 1e-12; }
double from_milli(std::uint64_t value) { return static_cast<double>(value) * 1e-3; }

Json head(const Sample& sample, int exit_code) {
  Json document;
  document["schema"] = kSchema;
  document["version"] = JAL_PROJECT_VERSION;
  document["time"] = rfc3339(sample.unix_ns);
  document["host"] = sample.host;
  document["code"] = exit_code;
  return document;
}

Json errors_of(const Sample& sample) {
  Json errors = Json::array();
  for (const Instance& instance : sample.instances) {
    if (instance.error != JAL_OK) {
      errors.push_back(
          {{"instance", instance.name}, {"uuid", nullptr}, {"code", instance.error}, {"msg", instance.error_text}});
    }
    for (const Device& device : instance.devices) {
      if (device.readable()) continue;
      errors.push_back(
          {{"instance", instance.name}, {"uuid", device.uuid}, {"code", device.error}, {"msg", device.error_text}});
    }
  }
  return errors;
}

const char* state_text(std::uint32_t state) {
#define JAL_SMI_STATE(name, value, text) \
  if (state == value) return text;
  JAL_UNIT_STATE_LIST(JAL_SMI_STATE)
#undef JAL_SMI_STATE
  return "unknown";
}

Json counters_of(const Device& d) {
  Json json;
  const std::optional<double> average = d.average_watts();
  json["power"] = {{"scope", "package"},
                   {"kind", "modelled"},
                   {"avg_w", average ? Json(*average) : Json(nullptr)},
                   {"avg_window_device_s", from_pico(d.clock_ps)},
                   {"idle_w", from_milli(d.static_mw)},
                   {"sustained_w", from_milli(d.sustained_mw)},
                   {"rated_w", from_milli(d.rated_mw)}};
  json["energy"] = {
      {"scope", "package"}, {"kind", "modelled"}, {"j", from_nano(d.energy_nj)}, {"epoch", d.energy_epoch}};
  json["time"] = {
      {"kind", "modelled"}, {"device_s", from_pico(d.clock_ps)}, {"dispatch_s", from_pico(d.dispatch_time_ps)}};
  Json units = Json::array();
#define JAL_SMI_UNIT(name, value, text)                               \
  units.push_back({{"unit", text},                                    \
                   {"state", state_text(d.unit_state[value])},        \
                   {"energy_j", from_nano(d.unit_energy_nj[value])},  \
                   {"busy_core_s", from_pico(d.unit_busy_ps[value])}, \
                   {"kind", "modelled"}});
  JAL_UNIT_LIST(JAL_SMI_UNIT)
#undef JAL_SMI_UNIT
  json["units"] = units;
  Json phases = Json::array();
#define JAL_SMI_PHASE(name, value, text)                               \
  phases.push_back({{"phase", text},                                   \
                    {"energy_j", from_nano(d.phase_energy_nj[value])}, \
                    {"time_s", from_pico(d.phase_time_ps[value])},     \
                    {"tokens", d.phase_tokens[value]}});
  JAL_PHASE_LIST(JAL_SMI_PHASE)
#undef JAL_SMI_PHASE
  json["phases"] = phases;
  json["memory"] = {{"total_bytes", d.hbm_total},
                    {"usable_bytes", d.hbm_usable},
                    {"reserved_bytes", d.hbm_reserved},
                    {"used_bytes", d.hbm_used}};
  json["bytes"] = {{"local", d.bytes_local},
                   {"remote", d.bytes_remote},
                   {"collective", d.bytes_collective},
                   {"noc", d.bytes_noc},
                   {"host", d.bytes_host}};
  json["counters"] = {{"packets", d.packets}, {"dispatches", d.dispatches}, {"errors", d.errors},
                      {"clients", d.clients}, {"queues", d.queues},         {"pending", d.pending}};
  return json;
}

std::string csv_cell(const std::string& text) {
  if (text.find_first_of(",\"\r\n") == std::string::npos) return text;
  std::string quoted = "\"";
  for (const char c : text) {
    if (c == '"') quoted += '"';
    quoted += c;
  }
  return quoted + "\"";
}

/// JSON value of a field's text: a number stays a number.
Json field_value(const Field& field, const std::optional<std::string>& text) {
  if (!text) return nullptr;
  if (field.kind[0] != '\0' || std::string(field.name) == "id" || std::string(field.name) == "index") {
    Json parsed = Json::parse(*text, nullptr, false);
    if (parsed.is_number()) return parsed;
  }
  return *text;
}

}  // namespace

std::string print_json(const Sample& sample, int exit_code) {
  Json document = head(sample, exit_code);
  Json instances = Json::array();
  for (const Instance& instance : sample.instances) {
    Json devices = Json::array();
    for (const Device& d : instance.devices) {
      Json json = {{"uuid", d.uuid},   {"id", d.id},       {"index", d.index},
                   {"model", d.model}, {"state", d.state}, {"emulated", d.emulated}};
      json["age_ns"] = d.age_ns ? Json(*d.age_ns) : Json(nullptr);
      if (d.readable()) {
        json.update(counters_of(d));
        json["missing"] = {{"power.instant_w", "a virtual clock has no instant: see avg_w over device time"}};
      } else {
        json["missing"] = {{"*", d.error_text}};
      }
      devices.push_back(json);
    }
    instances.push_back({{"name", instance.name},
                         {"private", instance.is_private},
                         {"pid", instance.owner_pid},
                         {"program", instance.program},
                         {"version", instance.version},
                         {"clock", instance.clock},
                         {"start", rfc3339(instance.start_unix_ns)},
                         {"devices", devices}});
  }
  document["instances"] = instances;
  document["errors"] = errors_of(sample);
  return document.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

std::string print_field_json(const Sample& sample, const std::vector<const Field*>& selected, int exit_code) {
  Json document = head(sample, exit_code);
  Json units = Json::object();
  for (const Field* field : selected) units[field->name] = field->unit;
  document["units"] = units;
  Json devices = Json::array();
  for (const Instance& instance : sample.instances) {
    for (const Device& device : instance.devices) {
      Json row = {{"uuid", device.uuid}, {"epoch", device.readable() ? Json(device.energy_epoch) : Json(nullptr)}};
      for (const Field* field : selected) row[field->name] = field_value(*field, field->value(device));
      devices.push_back(row);
    }
  }
  document["devices"] = devices;
  document["errors"] = errors_of(sample);
  return document.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

std::string print_csv(const Sample& sample, const std::vector<const Field*>& selected, bool header) {
  std::string out;
  if (header) {
    out = "time_utc,uuid,epoch";
    for (const Field* field : selected) {
      if (std::string(field->name) == "uuid") continue;
      std::string name = field->name;
      for (char& c : name) c = c == '.' ? '_' : c;
      out += "," + name;
    }
    out += "\r\n";
  }
  for (const Instance& instance : sample.instances) {
    for (const Device& device : instance.devices) {
      out += rfc3339(sample.unix_ns) + "," + csv_cell(device.uuid) + "," +
             (device.readable() ? std::to_string(device.energy_epoch) : std::string());
      for (const Field* field : selected) {
        if (std::string(field->name) == "uuid") continue;
        const std::optional<std::string> value = field->value(device);
        out += "," + (value ? csv_cell(*value) : std::string());
      }
      out += "\r\n";
    }
  }
  return out;
}

}  // namespace jal::smi
