// Contract: log_drain.hpp.
#include "emulator/instance/log_drain.hpp"

#include <cstdio>

namespace jal::emu {
namespace {

const char* format_of(std::uint32_t id) {
  switch (id) {
#define JAL_X(name, number, level, format) \
  case number:                             \
    return format;
    JAL_LOG_LIST(JAL_X)
#undef JAL_X
    default:
      return nullptr;
  }
}

}  // namespace

std::string log_text(const jal_log_entry& entry) {
  const char* format = format_of(entry.id);
  if (format == nullptr) {
    std::string text = "record " + std::to_string(entry.id) + ":";
    for (const std::uint64_t word : entry.word) text += " " + std::to_string(word);
    return text;
  }
  std::string text;
  std::uint32_t word = 0;
  for (; *format != '\0'; ++format) {
    if (format[0] == '{' && format[1] == '}') {
      text += std::to_string(entry.word[word++ % 4]);
      ++format;
    } else {
      text += *format;
    }
  }
  return text;
}

void LogDrain::print(const jal_log_ring& ring) {
  static constexpr const char* kLevels[] = {"", "error", "warning", "info", "debug"};
  if (ring.written - seen_ > JAL_LOG_ENTRIES) {
    std::fprintf(stderr, "jal-emulator: device %u: %llu log records were overwritten unread\n", device_,
                 static_cast<unsigned long long>(ring.written - seen_ - JAL_LOG_ENTRIES));
    seen_ = ring.written - JAL_LOG_ENTRIES;
  }
  for (; seen_ != ring.written; ++seen_) {
    const jal_log_entry& entry = ring.entry[seen_ % JAL_LOG_ENTRIES];
    if (entry.level == 0 || entry.level > level_) continue;
    std::fprintf(stderr, "jal-emulator: device %u: %.3f us: %s: %s\n", device_,
                 static_cast<double>(entry.time_ps) * 1e-6,
                 entry.level <= JAL_LOG_LEVEL_DEBUG ? kLevels[entry.level] : "?", log_text(entry).c_str());
  }
}

}  // namespace jal::emu
