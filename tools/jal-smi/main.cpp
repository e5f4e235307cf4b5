// jal-smi: power, energy, health and memory of the chips on this host, from the telemetry files of running instances.
//
// What it is not: a client. It opens no session, takes no lease and wakes nothing; it reads shared pages.
// Exit codes (jal-smi.1): 0 ok, 1 internal, 2 usage, 3 no such device, 4 permission, 6 no instance, 7 partial data.
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <string>

#include "tools/jal-smi/print.hpp"

namespace {

constexpr int kOk = 0;
constexpr int kInternal = 1;
constexpr int kUsage = 2;
constexpr int kNoDevice = 3;
constexpr int kPermission = 4;
constexpr int kNoInstance = 6;
constexpr int kPartial = 7;

/// Writes the whole document with as few calls as the system allows, so that a kill leaves no half row of a small one.
int put(const std::string& text, int code) {
  std::size_t done = 0;
  while (done < text.size()) {
    const ssize_t wrote = write(STDOUT_FILENO, text.data() + done, text.size() - done);
    if (wrote < 0) {
      std::perror("jal-smi: writing the output");
      return kInternal;
    }
    done += static_cast<std::size_t>(wrote);
  }
  return code;
}

/// Keeps the chip named by id or UUID prefix. False: there is none.
bool keep_device(jal::smi::Sample* sample, const std::string& name) {
  bool found = false;
  for (jal::smi::Instance& instance : sample->instances) {
    std::erase_if(instance.devices, [&](const jal::smi::Device& d) {
      const bool match = std::to_string(d.id) == name || (name.size() >= 4 && d.uuid.rfind(name, 0) == 0);
      found = found || match;
      return !match;
    });
  }
  std::erase_if(sample->instances, [](const jal::smi::Instance& instance) { return instance.devices.empty(); });
  return found;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app{"Power, energy, health and memory of Jalapeño chips. Reads shared telemetry; never touches a chip."};
  app.set_version_flag("--version", std::string("jal-smi ") + JAL_PROJECT_VERSION);
  bool all = false;
  bool partial_ok = false;
  std::string device;
  app.add_flag("--all", all, "show every chip, also when there are more than 16");
  app.add_flag("--partial-ok", partial_ok, "exit 0 although some chips could not be read");
  app.add_option("-i,--id", device, "only this chip: its id, or at least four characters of its UUID");
  app.require_subcommand(0, 1);
  app.fallthrough();
  CLI::App* list = app.add_subcommand("list", "one line a chip: id, uuid, instance, model, state");
  CLI::App* query = app.add_subcommand("query", "chosen fields, or everything");
  CLI::App* field_list = app.add_subcommand("fields", "every field: name, unit, kind, meaning");
  bool json = false;
  bool csv = false;
  bool no_header = false;
  std::vector<std::string> names;
  query->add_option("--fields", names, "fields, separated by commas (jal-smi fields lists them)")->delimiter(',');
  CLI::Option* json_option = query->add_flag("--json", json, "one JSON document, schema jal.smi/1");
  query->add_flag("--csv", csv, "RFC 4180: a header, then a row a chip")->excludes(json_option);
  query->add_flag("--no-header", no_header, "with --csv: rows only");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? kOk : kUsage;
  }
  if (*field_list) return put(jal::smi::print_field_table(), kOk);

  std::vector<const jal::smi::Field*> selected;
  if (*query) {
    std::string unknown;
    selected = jal::smi::select_fields(names, &unknown);
    if (!unknown.empty()) {
      std::fprintf(stderr, "jal-smi: no field '%s'; jal-smi fields lists them\n", unknown.c_str());
      return kUsage;
    }
  }

  jal::smi::Sample sample = jal::smi::collect();
  int code = kOk;
  if (sample.error != JAL_OK) {
    std::fprintf(stderr, "jal-smi: %s\n", sample.error_text.c_str());
    return kPermission;
  }
  if (sample.instances.empty()) {
    std::fprintf(stderr, "jal-smi: no running instance: %s\n", sample.nothing_found.c_str());
    code = kNoInstance;
  } else if (!device.empty() && !keep_device(&sample, device)) {
    std::fprintf(stderr, "jal-smi: no chip '%s'; jal-smi list shows them\n", device.c_str());
    return kNoDevice;
  }
  if (code == kOk && sample.unreadable_count() > 0 && !partial_ok) code = kPartial;

  if (*query && json) {
    return put(names.empty() ? print_json(sample, code) : print_field_json(sample, selected, code), code);
  }
  if (*query && selected.empty()) {
    for (const jal::smi::Field& field : jal::smi::fields()) selected.push_back(&field);
  }
  if (*query && csv) return put(print_csv(sample, selected, !no_header), code);
  if (code == kNoInstance) return code;
  if (*list) return put(print_list(sample), code);
  if (*query) return put(print_fields(sample, selected), code);
  return put(print_table(sample, all), code);
}
