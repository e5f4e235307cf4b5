// Tables, JSON and CSV of a sample. stdout is data only; every document is one string, written whole by the caller.
#pragma once
#include <string>
#include <vector>

#include "tools/jal-smi/fields.hpp"
#include "tools/jal-smi/sample.hpp"

namespace jal::smi {

/// Version of the JSON documents; grows only.
inline constexpr const char* kSchema = "jal.smi/1";
/// More chips than this are summarised: one line per instance and every chip that is not ok.
inline constexpr std::size_t kTableDevices = 16;

/// The default table, at most 100 columns.
std::string print_table(const Sample& sample, bool all);
/// One line a chip: id, uuid, instance, model, state.
std::string print_list(const Sample& sample);
/// The whole sample as one JSON document, UTF-8, numbers only, null for unknown with a reason.
std::string print_json(const Sample& sample, int exit_code);
/// The chosen fields as RFC 4180: header, then a row a chip; empty cell = unknown.
std::string print_csv(const Sample& sample, const std::vector<const Field*>& selected, bool header);
/// The chosen fields as JSON, names as keys.
std::string print_field_json(const Sample& sample, const std::vector<const Field*>& selected, int exit_code);
/// The chosen fields for people: name, value, unit, kind, one block a chip.
std::string print_fields(const Sample& sample, const std::vector<const Field*>& selected);
/// Every field there is: name, unit, kind, meaning.
std::string print_field_table();

}  // namespace jal::smi
