// The message of a thread's last failure: the innermost layer writes it, each layer above may append a frame.
//
// What it is not: a log. Success never touches it, so it costs nothing until something fails. Invariant: a message says
// what failed, the values, the limit, and what to do. Threads: each has its own.
#pragma once
#include <fmt/core.h>

#include <string>

#include "driver/base/status.hpp"

namespace jal::drv {

Status fail_formatted(jal_status_t code, fmt::string_view format, fmt::format_args arguments);
Status add_frame_formatted(Status status, fmt::string_view format, fmt::format_args arguments);

/// Starts a new message and returns the status: `return fail(JAL_ERROR_BUSY, "instance {} ...", name);`
template <typename... T>
Status fail(jal_status_t code, fmt::format_string<T...> format, T&&... arguments) {
  return fail_formatted(code, format, fmt::make_format_args(arguments...));
}

/// Appends "  in: ..." to the thread's message if the status is a failure; returns it unchanged.
template <typename... T>
Status add_frame(Status status, fmt::format_string<T...> format, T&&... arguments) {
  if (status.ok()) return status;
  return add_frame_formatted(status, format, fmt::make_format_args(arguments...));
}

/// "" if nothing failed on this thread. Valid until its next failure.
const char* last_error_message();
jal_status_t last_error_status();

/// Keeps the thread's message over a clean-up that may fail itself.
class MessageKeeper {
 public:
  MessageKeeper() : status_(last_error_status()), text_(last_error_message()) {}
  ~MessageKeeper();
  MessageKeeper(const MessageKeeper&) = delete;
  MessageKeeper& operator=(const MessageKeeper&) = delete;

 private:
  const jal_status_t status_;
  std::string text_;
};

/// "BUSY"; "OK"; "UNKNOWN".
const char* status_name(jal_status_t status);
const char* status_text(jal_status_t status);
const char* status_advice(jal_status_t status);

/// Absolute host time in ns (CLOCK_MONOTONIC): the clock of every deadline.
std::uint64_t now_ns();

}  // namespace jal::drv
