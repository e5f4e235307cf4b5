// Contract: error_record.hpp.
#include "driver/error_record.hpp"

#include <fmt/format.h>

#include "driver/base/error_frames.hpp"

namespace jal::drv {

const char* packet_type_name(std::uint32_t type) {
  switch (type) {
#define JAL_NAME(name, value, text) \
  case value:                       \
    return text;
    JAL_PACKET_TYPE_LIST(JAL_NAME)
#undef JAL_NAME
    default:
      return "packet";
  }
}

std::string describe(const jal_error_record& record) {
  std::string words = record.text[0] != '\0' ? record.text : status_text(record.status);
  if (record.kernel[0] != '\0') words += fmt::format("; kernel {}", record.kernel);
  if (record.core != UINT32_MAX) words += fmt::format(", core {}", record.core);
  if (record.file[0] != '\0') words += fmt::format(", {}:{}", record.file, record.line);
  if (record.address != 0) {
    words += fmt::format("; address {:#x}", record.address);
    if (JAL_ADDRESS_SPACE(record.address) == JAL_SPACE_HBM) {
      words +=
          fmt::format(" (slice {}, offset {})", JAL_ADDRESS_SLICE(record.address), JAL_ADDRESS_OFFSET(record.address));
    }
  }
  if (record.near_base != 0) {
    words += fmt::format(", nearest allocation {:#x} + {} bytes", record.near_base, record.near_bytes);
  }
  words += fmt::format("; {} packet {} of queue {}", packet_type_name(record.packet_type), record.packet_index,
                       record.queue);
  if (record.tag != 0) words += fmt::format(", tag {}", record.tag);
  return words + fmt::format("; {}", status_advice(record.status));
}

}  // namespace jal::drv
