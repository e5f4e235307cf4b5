// The fields jal-smi can print: one table for query, the man page and `jal-smi fields`.
//
// Invariant: a field keeps its name, unit and meaning for ever; new ones are appended.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "tools/jal-smi/sample.hpp"

namespace jal::smi {

struct Field {
  const char* name;  ///< dotted, as in --fields; in CSV dots become underscores
  const char* unit;  ///< "" for text and counts
  const char* kind;  ///< "modelled", "measured" or "" for identities
  const char* meaning;
  /// Text of the value; empty optional = unknown.
  std::optional<std::string> (*value)(const Device&);
};

const std::vector<Field>& fields();

/// Fields by name, in the order asked; a name that does not exist is returned in *unknown.
std::vector<const Field*> select_fields(const std::vector<std::string>& names, std::string* unknown);

}  // namespace jal::smi
