// What the program says about a run: each figure with its unit, whether it was measured (host) or modelled (device),
// and its scope.
#pragma once
#include <cstdint>
#include <jal/jal.hpp>
#include <span>
#include <string>
#include <vector>

#include "samples/01_llm/tokenizer.hpp"

namespace jal::llm {

struct Figure {
  std::string name;
  double value = 0;
  std::string unit;
  std::string kind;   ///< "measured" (host) or "modelled" (device)
  std::string scope;  ///< "host", "device", "package"
};

/// One answer of the model.
struct Run {
  std::string model;
  std::string weights;
  std::string prompt;
  std::vector<TokenId> prompt_ids;
  std::vector<TokenId> ids;
  std::string text;
  std::string stop;          ///< "eos", "length", "interrupt"
  double prefill_s = 0;      ///< host
  double decode_s = 0;       ///< host, of the tokens after the first
  double first_token_s = 0;  ///< host, from program start
  jal_telemetry before{}, prefilled{}, after{};
};

/// Figures of a run, in the order they are printed.
std::vector<Figure> figures_of(const Run& run);
/// The document of schema jal.demo/1.
std::string to_json(const Run& run, std::span<const Figure> figures);
/// The report for people, one line a figure.
std::string to_text(std::span<const Figure> figures, const std::string& operation, const std::string& chip);

}  // namespace jal::llm
