// Contract: log.hpp.
#include "driver/base/log.hpp"

#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>

#include "driver/base/error_frames.hpp"

namespace jal::drv {
namespace {

constexpr int kUnread = -1;
std::atomic<int> g_level{kUnread};

int read_level() {
  const char* text = std::getenv("JAL_LOG");
  if (text == nullptr || *text == '\0' || std::strcmp(text, "off") == 0) return 0;
  constexpr const char* kNames[] = {"error", "warning", "info", "debug"};
  for (int i = 0; i < 4; ++i) {
    if (std::strcmp(text, kNames[i]) == 0) return i + 1;
  }
  std::fprintf(stderr, "jal: JAL_LOG=%s is not off, error, warning, info or debug; taken as off\n", text);
  return 0;
}

/// Never destroyed: a library call may log during exit.
spdlog::logger& logger() {
  static spdlog::logger* const made = [] {
    auto* fresh = new spdlog::logger("jal", std::make_shared<spdlog::sinks::stderr_sink_mt>());
    fresh->set_level(spdlog::level::trace);
    fresh->set_pattern("%Y-%m-%dT%H:%M:%S.%f jal %t %l: %v");
    return fresh;
  }();
  return *made;
}

}  // namespace

bool log_enabled(LogLevel level) {
  int current = g_level.load(std::memory_order_relaxed);
  if (current == kUnread) {
    current = read_level();
    g_level.store(current, std::memory_order_relaxed);
  }
  return static_cast<int>(level) <= current;
}

void log_line(LogLevel level, std::string_view text) {
  constexpr spdlog::level::level_enum kLevels[] = {spdlog::level::err, spdlog::level::warn, spdlog::level::info,
                                                   spdlog::level::debug};
  try {
    logger().log(kLevels[static_cast<int>(level) - 1], "{}", text);
  } catch (...) {
    // A log that cannot be written must not break what it tells of.
  }
}

void log_failure(jal_status_t status, std::string_view text) {
  if (log_enabled(LogLevel::debug)) log(LogLevel::debug, "{}: {}", status_name(status), text);
}

}  // namespace jal::drv
