// The library's log: lines on standard error for whoever sets JAL_LOG; silent otherwise.
//
// What it is not: the way errors are reported (error_frames.hpp), or stdout. Made at the first line that passes the
// level, so a process that logs nothing pays for nothing. Threads: any.
#pragma once
#include <fmt/core.h>
#include <jal/abi/status.h>

#include <string_view>

namespace jal::drv {

enum class LogLevel : int { error = 1, warning = 2, info = 3, debug = 4 };

/// Whether a line of that level would be written: $JAL_LOG = off (default), error, warning, info, debug.
bool log_enabled(LogLevel level);
void log_line(LogLevel level, std::string_view text);
/// A failure's message, at level debug: callers often handle failures.
void log_failure(jal_status_t status, std::string_view text);

template <typename... T>
void log(LogLevel level, fmt::format_string<T...> format, T&&... arguments) {
  if (log_enabled(level)) log_line(level, fmt::vformat(format, fmt::make_format_args(arguments...)));
}

}  // namespace jal::drv
