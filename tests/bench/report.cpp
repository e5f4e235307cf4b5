// Output of benchmark programs: see report.hpp.
#include "tests/bench/report.hpp"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <string_view>

#include "tests/bench/machine.hpp"

namespace jal::bench {
namespace {

using Json = nlohmann::ordered_json;

double judged(const Record& record) { return record.reference ? record.value / record.reference->value : record.value; }

// A division by a reference of zero must not break the reader: JSON has no infinity.
Json finite(double value) { return value == value && value - value == 0 ? Json(value) : Json(nullptr); }

}  // namespace

std::optional<bool> goal_is_met(const Record& record) {
  if (!record.goal) return std::nullopt;
  const double value = judged(record);
  return record.goal->op == "<=" ? value <= record.goal->value : value >= record.goal->value;
}

std::string to_json(const Record& record) {
  Json line;
  line["bench"] = record.bench;
  line["case"] = record.name;
  line["value"] = finite(record.value);
  line["unit"] = record.unit;
  line["better"] = record.lower_is_better ? "lower" : "higher";
  line["kind"] = record.is_modelled ? "modelled" : "measured";
  line["n"] = record.n;
  if (record.reference) {
    line["reference"] = {{"name", record.reference->name}, {"value", finite(record.reference->value)}};
    line["ratio"] = finite(judged(record));
  }
  if (record.goal) {
    line["goal"] = {{"op", record.goal->op}, {"value", record.goal->value}};
    line["met"] = *goal_is_met(record);
  }
  if (!record.placement.empty()) line["placement"] = record.placement;
  return line.dump();
}

double median(std::vector<double> values) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  const std::size_t middle = values.size() / 2;
  return values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

Report::Report(int argc, char** argv) {
  for (int i = 1; i < argc; ++i) {
    const std::string_view word = argv[i];
    if (word == "--json") {
      json_ = true;
    } else if (word == "--only" && i + 1 < argc) {
      only_ = argv[++i];
    } else {
      std::fprintf(stderr, "%s: unknown option '%s'\nusage: %s [--json] [--only TEXT]\n", argv[0], argv[i], argv[0]);
      std::exit(2);
    }
  }
}

bool Report::wants(const std::string& name) const { return name.find(only_) != std::string::npos; }

void Report::add(const Record& record) {
  if (json_) {
    std::printf("%s\n", to_json(record).c_str());
  } else {
    std::printf("%-9s %-34s %12.4g %-8s %s", record.bench.c_str(), record.name.c_str(), record.value,
                record.unit.c_str(), record.is_modelled ? "modelled" : "measured");
    if (record.reference) {
      std::printf("  ratio %.3g to %s %.4g", judged(record), record.reference->name.c_str(), record.reference->value);
    }
    if (record.goal) {
      std::printf("  goal %s %g: %s", record.goal->op.c_str(), record.goal->value,
                  *goal_is_met(record) ? "met" : "NOT MET");
    }
    std::printf("\n");
  }
  std::fflush(stdout);
}

void Report::add_machine() {
  const Machine machine = measure_machine();
  Json line;
  line["bench"] = "machine";
  line["isa"] = machine.isa;
  line["cores"] = machine.cores;
  line["ping_pong_ns"] = machine.ping_pong_ns;
  line["read_gbps_1t"] = machine.read_gbps_1t;
  line["read_gbps_2t"] = machine.read_gbps_2t;
  line["placement"] = machine.placement;
  std::printf("%s\n", line.dump().c_str());
}

}  // namespace jal::bench
