// jal: small questions to the SDK: what a status means, how true the model is.
//
// What it is not: a monitor (jal-smi) or a client with work. `fidelity` opens a private instance for a moment; the rest
// opens nothing. Exit codes (jal.1): 0 done, 1 failed, 2 usage, 3 no such status.
#include <jal/jal.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cctype>
#include <charconv>
#include <cstdio>
#include <string>
#include <vector>

namespace {

constexpr int kOk = 0, kFailed = 1, kUsage = 2, kNoStatus = 3;

std::vector<jal_status_t> all_statuses() {
  std::vector<jal_status_t> statuses;
  jal_status_t status = JAL_OK;
  for (std::uint32_t i = 0; jal_status_at(i, &status) == JAL_OK; ++i) statuses.push_back(status);
  return statuses;
}

bool parse_number(std::string text, jal_status_t* out) {
  int base = 10;
  if (text.rfind("0x", 0) == 0 || text.rfind("0X", 0) == 0) {
    base = 16;
    text.erase(0, 2);
  }
  const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), *out, base);
  return problem == std::errc() && end == text.data() + text.size() && !text.empty();
}

/// Edits (insert, remove, change) that make one word the other, without case.
std::size_t distance(const std::string& a, const std::string& b) {
  std::vector<std::size_t> row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const bool same = std::toupper(static_cast<unsigned char>(a[i - 1])) == b[j - 1];
      const std::size_t changed = diagonal + (same ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({changed, row[j] + 1, row[j - 1] + 1});
    }
  }
  return row[b.size()];
}

int explain(const std::string& what) {
  if (what.empty()) {
    for (const jal_status_t status : all_statuses())
      std::printf("%-22s %s\n", jal_status_name(status), jal_status_text(status));
    return kOk;
  }
  jal_status_t status = JAL_OK;
  bool is_known = false;
  if (parse_number(what, &status)) {
    const auto known = all_statuses();
    is_known = status == JAL_OK || std::find(known.begin(), known.end(), status) != known.end();
  } else {
    is_known = jal_status_from_name(what.c_str(), &status) == JAL_OK;
  }
  if (!is_known) {
    std::string nearest;
    std::size_t best = 6;  // farther away is no help
    for (const jal_status_t candidate : all_statuses()) {
      const std::size_t edits = distance(what, jal_status_name(candidate));
      if (edits >= best) continue;
      best = edits;
      nearest = jal_status_name(candidate);
    }
    std::fprintf(stderr, "jal explain: no status \"%s\"%s; `jal explain` without a name lists all\n", what.c_str(),
                 nearest.empty() ? "" : (", did you mean " + nearest + "?").c_str());
    return kNoStatus;
  }
  std::printf("%s (%d, %#x)\n  %s.\n  What to do: %s.\n", jal_status_name(status), status,
              static_cast<unsigned>(status), jal_status_text(status), jal_status_advice(status));
  return kOk;
}

int failed(const char* what) {
  std::fprintf(stderr, "jal %s: %s: %s\n", what, jal_status_name(jal_last_error_status()), jal_last_error_message());
  return kFailed;
}

int fidelity() {
  if (jal_init(nullptr) != JAL_OK) return failed("fidelity");
  const char *feature = nullptr, *level = nullptr, *text = nullptr;
  std::printf("%-40s %-12s %s\n", "feature", "level", "what that means");
  for (std::uint32_t i = 0; jal_fidelity_at(i, &feature, &level, &text) == JAL_OK; ++i) {
    std::printf("%-40s %-12s %s\n", feature, level, text);
  }
  return jal_shutdown() == JAL_OK ? kOk : failed("fidelity");
}

int model(const std::string& name) {
  if (jal_init(nullptr) != JAL_OK) return failed("model");
  double value = 0;
  const char *unit = nullptr, *source = nullptr;
  const bool is_known = jal_model_value(name.c_str(), &value, &unit, &source) == JAL_OK;
  if (is_known) {
    std::printf("%s = %.15g %s (modelled; source: %s)\n", name.c_str(), value, unit, source);
  } else {
    (void)failed("model");
  }
  (void)jal_shutdown();
  return is_known ? kOk : kFailed;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app{"Answers small questions about the Jalapeño SDK."};
  app.set_version_flag("--version", std::string("jal ") + jal_version());
  app.require_subcommand(1);
  std::string status, figure;
  CLI::App* explain_verb = app.add_subcommand("explain", "what a status means and what to do about it");
  explain_verb->add_option("STATUS", status,
                           "its name, or its number (decimal, or 0x...); without it, the list of all");
  CLI::App* fidelity_verb = app.add_subcommand("fidelity", "how true the emulator is, feature by feature");
  CLI::App* model_verb = app.add_subcommand("model", "a figure of the chip's model file, with unit and source");
  model_verb->add_option("FIGURE", figure, "its dotted name, e.g. rate.hbm_per_slice")->required();
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& problem) {
    return app.exit(problem) == 0 ? kOk : kUsage;
  }
  if (*explain_verb) return explain(status);
  if (*model_verb) return model(figure);
  return *fidelity_verb ? fidelity() : kUsage;
}
