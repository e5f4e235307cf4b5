// Prints what a benchmark program found: one JSON object per line with --json, else a table line. Format:
// docs/benchmarks.md.
//
// Not a timer and not a statistics library: the caller says what it measured. Invariant: every record that is added is
// printed, also when its goal is not met. Used from one thread.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace jal::bench {

struct Reference {
  std::string name;
  double value;
};

struct Goal {
  std::string op;  // "<=" or ">="
  double value;
};

struct Record {
  std::string bench;  // the area
  std::string name;   // the case
  double value = 0;   // the median
  std::string unit;
  bool lower_is_better = true;
  bool is_modelled = false;  // of the device; else measured on the host
  int n = 1;
  std::optional<Reference> reference = {};  // of the same run; gives the ratio value / reference
  std::optional<Goal> goal = {};            // of the ratio where there is a reference, else of the value
  std::string placement = {};
};

// Whether the goal holds; a record without goal has none.
std::optional<bool> goal_is_met(const Record& record);

// The line as printed with --json, without the end of line.
std::string to_json(const Record& record);

// Middle value (mean of the two middle ones); 0 of nothing.
double median(std::vector<double> values);

class Report {
 public:
  // Understands --json and --only TEXT (cases whose name contains TEXT); anything else ends the program with status 2
  // and a usage line.
  Report(int argc, char** argv);
  bool wants(const std::string& name) const;
  void add(const Record& record);
  // Prints the line of the machine; call it last.
  void add_machine();

 private:
  bool json_ = false;
  std::string only_;
};

}  // namespace jal::bench
