// An error record in words: what failed where, as one message. Contract: jal_error_record in jal/abi/session.h.
#pragma once
#include <jal/abi/address.h>
#include <jal/abi/session.h>

#include <string>

namespace jal::drv {

/// "copy": the name of a packet type; "packet" if unknown.
const char* packet_type_name(std::uint32_t type);

/// One line with everything the record knows: text, kernel, core, file and line, address, nearest allocation, packet.
/// The record's texts must be NUL-terminated (Session::record sees to it).
std::string describe(const jal_error_record& record);

}  // namespace jal::drv
