// Contract: error_frames.hpp.
#include "driver/base/error_frames.hpp"

#include <fmt/format.h>
#include <time.h>

#include <exception>

#include "driver/base/log.hpp"

namespace jal::drv {
namespace {

struct Frames {
  jal_status_t status = JAL_OK;
  std::string text;
};

/// Never destroyed before the thread's last use: a failing call from a thread_local destructor still finds a message.
Frames& frames() {
  thread_local Frames mine;
  return mine;
}

struct Row {
  jal_status_t status;
  const char *name, *text, *advice;
};
constexpr Row kRows[] = {{JAL_OK, "OK", "success", "nothing to do"},
#define JAL_ROW(name, canonical, unit, detail, text, advice) {JAL_ERROR_##name, #name, text, advice},
                         JAL_STATUS_LIST(JAL_ROW)
#undef JAL_ROW
};

const Row* row(jal_status_t status) {
  for (const Row& candidate : kRows) {
    if (candidate.status == status) return &candidate;
  }
  return nullptr;
}

}  // namespace

Status fail_formatted(jal_status_t code, fmt::string_view format, fmt::format_args arguments) {
  Frames& mine = frames();
  mine.status = code;
  try {
    mine.text = fmt::vformat(format, arguments);
  } catch (const std::exception&) {
    mine.text.clear();  // no memory for words; the status still says it
  }
  log_failure(code, mine.text);
  return code;
}

Status add_frame_formatted(Status status, fmt::string_view format, fmt::format_args arguments) {
  Frames& mine = frames();
  try {
    // A bare code from a hot path has no message of its own yet.
    if (mine.status != status.code() || mine.text.empty()) {
      mine.status = status.code();
      mine.text = status_text(status.code());
    }
    mine.text += "\n  in: ";
    mine.text += fmt::vformat(format, arguments);
  } catch (const std::exception&) {
    // The frames so far stand.
  }
  return status;
}

const char* last_error_message() { return frames().text.c_str(); }
jal_status_t last_error_status() { return frames().status; }

MessageKeeper::~MessageKeeper() {
  frames().status = status_;
  frames().text.swap(text_);
}

const char* status_name(jal_status_t status) {
  const Row* found = row(status);
  return found != nullptr ? found->name : "UNKNOWN";
}
const char* status_text(jal_status_t status) {
  const Row* found = row(status);
  return found != nullptr ? found->text : "a status that this library does not know";
}
const char* status_advice(jal_status_t status) {
  const Row* found = row(status);
  return found != nullptr ? found->advice : "use libraries and tools of one release";
}

std::uint64_t now_ns() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000u + static_cast<std::uint64_t>(now.tv_nsec);
}

}  // namespace jal::drv
