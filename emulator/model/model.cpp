// Reads a chip's model file (TOML) strictly: contract in model.hpp, keys in model_keys.hpp, format in README.md.
#include "emulator/model/model.hpp"

#include <dlfcn.h>
#include <unistd.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <vector>

// Header-only: one file less to load at start.
#define TOML_HEADER_ONLY 1
#define TOML_EXCEPTIONS 0
#define TOML_ENABLE_FORMATTERS 0
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wold-style-cast"
#pragma GCC diagnostic ignored "-Wshadow"
#pragma GCC diagnostic ignored "-Wconversion"
#include <toml++/toml.h>
#pragma GCC diagnostic pop

#include <jal/abi/address.h>

#include "emulator/model/model_keys.hpp"

namespace jal::emu {
namespace {

/// What a file says of one key, and where.
struct Entry {
  ModelFigure figure;
  std::string where;  // "file:line"
};

std::string number(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.12g", value);
  return text;
}

std::string directory_of(const std::string& path) {
  const auto slash = path.rfind('/');
  return slash == std::string::npos ? "." : path.substr(0, slash);
}

/// Where this code was loaded from: libjal-emulator.so, or a program that links it.
std::string own_directory() {
  Dl_info info{};
  if (dladdr(reinterpret_cast<const void*>(&own_directory), &info) == 0 || info.dli_fname == nullptr) return ".";
  return directory_of(info.dli_fname);
}

std::vector<std::string> search_directories() {
  std::vector<std::string> directories;
  if (const char* path = std::getenv("JAL_MODEL_PATH"); path != nullptr && *path != '\0')
    directories.emplace_back(path);
  const std::string own = own_directory();
  directories.push_back(own + "/../share/jal/models");
  directories.push_back(own + "/../../share/jal/models");  // lib/jal/libjal-emulator.so
  return directories;
}

class Reader {
 public:
  explicit Reader(std::string* error) : error_(error) {}

  bool read(const std::string& path, bool may_have_base) {
    const toml::parse_result parsed = toml::parse_file(path);
    if (!parsed) {
      const auto& problem = parsed.error();
      return fail(path + ":" + std::to_string(problem.source().begin.line) + ": " + std::string(problem.description()));
    }
    const toml::table& file = parsed.table();
    file_ = path;
    if (const toml::node* base = file.get("base"); base != nullptr && may_have_base) {
      const auto text = base->value<std::string>();
      if (!text || text->find('/') != std::string::npos) {
        return fail(where(*base) + "base is not the name of a model in the same folder");
      }
      if (!read(directory_of(path) + "/" + *text + ".toml", false)) return false;
      file_ = path;
    }
    return table(file, "", may_have_base);
  }

  std::map<std::string, Entry> entries;
  std::string name;

 private:
  bool fail(std::string text) {
    if (error_->empty()) *error_ = std::move(text);
    return false;
  }

  std::string where(const toml::node& node) const {
    return file_ + ":" + std::to_string(node.source().begin.line) + ": ";
  }

  bool table(const toml::table& from, const std::string& prefix, bool may_have_base) {
    for (const auto& [key, node] : from) {
      const std::string full = prefix.empty() ? std::string(key.str()) : prefix + "." + std::string(key.str());
      if (prefix.empty() && key.str() == "base" && may_have_base) continue;
      if (prefix.empty() && key.str() == "name") {
        const auto text = node.value<std::string>();
        if (!text || text->empty() || text->size() > 31)
          return fail(where(node) + "name is not a text of 1 to 31 characters");
        name = *text;
        continue;
      }
      const toml::table* inner = node.as_table();
      if (inner == nullptr) return fail(where(node) + "unknown key " + full + "; a figure is {value, unit, source}");
      if (inner->contains("value") ? !figure(*inner, full) : !table(*inner, full, may_have_base)) return false;
    }
    return true;
  }

  bool figure(const toml::table& from, const std::string& full) {
    for (const auto& [key, node] : from) {
      if (key.str() != "value" && key.str() != "unit" && key.str() != "source") {
        return fail(where(node) + full + ": unknown part " + std::string(key.str()) +
                    "; a figure is {value, unit, source}");
      }
    }
    const auto* value = from.get("value");
    const auto unit = from["unit"].value<std::string>();
    const auto source = from["source"].value<std::string>();
    if (!value->is_number()) return fail(where(*value) + full + ": value is not a number");
    if (!unit) return fail(where(from) + full + ": unit is missing or not a text");
    if (!source) return fail(where(from) + full + ": source is missing or not a text");
    static constexpr std::string_view kSources[] = {"published", "assumption because ", "inferred"};
    bool known = false;
    for (const auto start : kSources) known |= source->starts_with(start) && source->size() > start.size();
    if (!known) {
      return fail(where(from) + full + ": source \"" + *source +
                  "\" does not begin with \"published\", \"inferred\" or \"assumption because\" and then say more");
    }
    entries[full] = {{*value->value<double>(), *unit, *source}, where(from)};
    return true;
  }

  std::string* error_;
  std::string file_;
};

bool check_range(const Entry& entry, const std::string& key, const std::string& unit, double low, double high,
                 std::string* error) {
  if (entry.figure.unit != unit) {
    *error = entry.where + key + ": unit is \"" + entry.figure.unit + "\", must be \"" + unit + "\"";
    return false;
  }
  // Written so that NaN fails too.
  if (!(entry.figure.value >= low && entry.figure.value <= high)) {
    *error = entry.where + key + ": value " + number(entry.figure.value) + " " + unit + " is outside " + number(low) +
             " to " + number(high) + " " + unit;
    return false;
  }
  return true;
}

template <typename Integer>
bool set_whole(const Entry& entry, const ModelKey& key, Integer& field, std::string* error) {
  const double scaled = entry.figure.value * key.scale;
  const double whole = std::nearbyint(scaled);
  // A decimal fraction such as 0.15 has no exact binary form; a millionth of a step is far above that error.
  if (std::abs(scaled - whole) > 1e-6) {
    *error = entry.where + key.name + ": value " + number(entry.figure.value) + " " + key.unit +
             " is not a whole multiple of " + number(1 / key.scale) + " " + key.unit;
    return false;
  }
  field = static_cast<Integer>(whole);
  return true;
}

bool apply(const std::string& file, const std::map<std::string, Entry>& entries, Model& model, std::string* error) {
  std::size_t used = 0;
  std::string missing;
  for (const ModelKey& key : model_keys()) {
    const auto found = entries.find(key.name);
    if (found == entries.end()) {
      missing += (missing.empty() ? "" : ", ") + key.name;
      continue;
    }
    ++used;
    const Entry& entry = found->second;
    if (!check_range(entry, key.name, key.unit, key.low, key.high, error)) return false;
    const bool good = std::visit(
        [&](auto field) {
          if constexpr (std::is_same_v<decltype(field), double Model::*>) {
            model.*field = entry.figure.value * key.scale;
            return true;
          } else {
            return set_whole(entry, key, model.*field, error);
          }
        },
        key.field);
    if (!good) return false;
    model.figures[key.name] = entry.figure;
  }
  for (const StaticKey& key : static_keys()) {
    const auto found = entries.find(key.name);
    if (found == entries.end()) {
      missing += (missing.empty() ? "" : ", ") + key.name;
      continue;
    }
    ++used;
    const Entry& entry = found->second;
    const bool on = key.state == JAL_UNIT_STATE_ON;
    if (!check_range(entry, key.name, on ? "W" : "of on", 0, on ? 1e4 : 1, error)) return false;
    // The list of states begins with ON, so its watts are known here.
    const double of = on ? 1e6 : static_cast<double>(model.static_uw[key.unit][JAL_UNIT_STATE_ON]);
    model.static_uw[key.unit][key.state] = static_cast<std::uint64_t>(std::llround(entry.figure.value * of));
    model.figures[key.name] = entry.figure;
  }
  if (!missing.empty()) {
    *error = file + ": missing " + missing;
    return false;
  }
  if (used != entries.size()) {
    for (const auto& [key, entry] : entries) {
      if (model.figures.count(key) == 0) {
        *error = entry.where + "unknown key " + key;
        return false;
      }
    }
  }
  return true;
}

/// Limits that join several keys.
bool check_whole(const std::string& file, Model& model, std::string* error) {
  model.cores = model.grid_rows * model.grid_cols;
  if (model.cores > JAL_MAX_CORES) {
    *error = file + ": organisation.grid_rows x organisation.grid_cols is " + std::to_string(model.cores) +
             " cores, at most " + std::to_string(JAL_MAX_CORES);
    return false;
  }
  const std::uint64_t total = model.slice_bytes;
  if (model.reserved_bytes_per_slice + JAL_PAGE_BYTES > total) {
    *error = file + ": memory.firmware_reserve_per_slice leaves no page of memory.slice";
    return false;
  }
  model.slice_bytes = (total - model.reserved_bytes_per_slice) / JAL_PAGE_BYTES * JAL_PAGE_BYTES;
  model.reserved_bytes_per_slice = total - model.slice_bytes;
  if (model.sustained_mw > model.rated_mw) {
    *error = file + ": power.sustained is above power.rated";
    return false;
  }
  return true;
}

}  // namespace

bool load_model(const std::string& name_or_path, Model* out, std::string* error) {
  error->clear();
  std::string path = name_or_path;
  if (path.find('/') == std::string::npos) {
    std::string tried;
    path.clear();
    for (const std::string& directory : search_directories()) {
      const std::string candidate = directory + "/" + name_or_path + ".toml";
      if (access(candidate.c_str(), R_OK) == 0) {
        path = candidate;
        break;
      }
      tried += (tried.empty() ? "" : ", ") + candidate;
    }
    if (path.empty()) {
      *error = "no model file named \"" + name_or_path + "\"; looked for " + tried +
               "; give the path of a file (with a '/') or set JAL_MODEL_PATH";
      return false;
    }
  }
  Reader reader(error);
  if (!reader.read(path, true)) return false;
  Model model;
  model.name = reader.name;
  if (model.name.empty()) {
    *error = path + ": missing name";
    return false;
  }
  if (!apply(path, reader.entries, model, error) || !check_whole(path, model, error)) return false;
  *out = std::move(model);
  return true;
}

}  // namespace jal::emu
