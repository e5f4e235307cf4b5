// The report. See report.hpp.
#include "samples/01_llm/report.hpp"

#include <spdlog/fmt/fmt.h>

#include <nlohmann/json.hpp>

namespace jal::llm {
namespace {

double ratio(double a, double b) { return b > 0 ? a / b : 0; }

}  // namespace

std::vector<Figure> figures_of(const Run& run) {
  const jal_telemetry& a = run.before;
  const jal_telemetry& b = run.after;
  std::vector<Figure> list;
  const auto measured = [&](const char* name, double value, const char* unit) {
    list.push_back({name, value, unit, "measured", "host"});
  };
  const auto modelled = [&](std::string name, double value, const char* unit, const char* scope) {
    list.push_back({std::move(name), value, unit, "modelled", scope});
  };
  const double decoded = run.ids.empty() ? 0 : static_cast<double>(run.ids.size() - 1);
  measured("first_token_s", run.first_token_s, "s");
  measured("prompt_tokens_per_s", ratio(static_cast<double>(run.prompt_ids.size()), run.prefill_s), "token/s");
  measured("generated_tokens_per_s", ratio(decoded, run.decode_s), "token/s");

  const auto phase = [&](const std::uint64_t(&x)[8], const std::uint64_t(&y)[8], int p) {
    return static_cast<double>(y[p] - x[p]);
  };
  const double decode_tokens = phase(a.phase_tokens, b.phase_tokens, JAL_PHASE_VERIFY_DECODE);
  const double decode_ps = phase(a.phase_time_ps, b.phase_time_ps, JAL_PHASE_VERIFY_DECODE);
  const double prefill_ps = phase(a.phase_time_ps, b.phase_time_ps, JAL_PHASE_PREFILL);
  const double prefill_tokens = phase(a.phase_tokens, b.phase_tokens, JAL_PHASE_PREFILL);
  modelled("chip_time_per_token_us", ratio(decode_ps * 1e-6, decode_tokens), "us", "device");
  modelled("chip_tokens_per_s", ratio(decode_tokens, decode_ps * 1e-12), "token/s", "device");
  modelled("chip_prompt_tokens_per_s", ratio(prefill_tokens, prefill_ps * 1e-12), "token/s", "device");
  modelled("joules_per_token",
           ratio(phase(a.phase_energy_nj, b.phase_energy_nj, JAL_PHASE_VERIFY_DECODE) * 1e-9, decode_tokens), "J/token",
           "package");
  // The prompt's energy is left out: its tokens share the weights' bytes, so their joules are another figure.
  const jal_telemetry& p = run.prefilled;
#define JAL_LLM_UNIT(name, value, text)                                                                         \
  modelled("joules_per_token." text,                                                                            \
           ratio(static_cast<double>(b.unit_energy_nj[value] - p.unit_energy_nj[value]) * 1e-9, decode_tokens), \
           "J/token", "package");
  JAL_UNIT_LIST(JAL_LLM_UNIT)
#undef JAL_LLM_UNIT
  modelled("hbm_bytes_local", static_cast<double>(b.bytes_local - a.bytes_local), "bytes", "device");
  modelled("hbm_bytes_remote", static_cast<double>(b.bytes_remote - a.bytes_remote), "bytes", "device");
  modelled("collective_bytes", static_cast<double>(b.bytes_collective - a.bytes_collective), "bytes", "device");
  list.push_back({"tokens.prefill", prefill_tokens, "token", "measured", "device"});
  list.push_back({"tokens.verify_decode", decode_tokens, "token", "measured", "device"});
  return list;
}

std::string to_json(const Run& run, std::span<const Figure> figures) {
  nlohmann::ordered_json json;
  json["schema"] = "jal.demo/1";
  json["model"] = run.model;
  json["weights"] = run.weights;
  json["prompt"] = run.prompt;
  json["prompt_token_ids"] = run.prompt_ids;
  json["token_ids"] = run.ids;
  json["text"] = run.text;
  json["stop"] = run.stop;
  json["figures"] = nlohmann::ordered_json::array();
  for (const Figure& f : figures) {
    json["figures"].push_back(
        {{"name", f.name}, {"value", f.value}, {"unit", f.unit}, {"kind", f.kind}, {"scope", f.scope}});
  }
  return json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

std::string to_text(std::span<const Figure> figures, const std::string& operation, const std::string& chip) {
  std::string out = fmt::format(
      "--- {}; linear layers {}, embedding and head bf16_f32; host figures measured, device figures modelled\n", chip,
      operation);
  for (const Figure& f : figures) {
    const bool is_whole = f.unit == "bytes" || f.unit == "token";
    out += fmt::format("{:<28} {:>16} {:<9} {} ({})\n", f.name,
                       is_whole ? fmt::format("{:.0f}", f.value) : fmt::format("{:.6g}", f.value), f.unit, f.kind,
                       f.scope);
  }
  return out;
}

}  // namespace jal::llm
