// Finds the library that holds an instance of chips, and gets its table of functions. Contract: jal/abi/instance.h.
//
// What it is not: an instance; nothing is started here. Invariant: a library that was opened stays open for the life of
// the process, since its threads and its atfork handler must not lose their code. Threads: any.
#pragma once
#include <jal/abi/instance.h>

#include <string>
#include <vector>

#include "driver/base/status.hpp"

namespace jal::drv {

/// Where the emulator is looked for, in order: $JAL_EMULATOR alone if it is set; else relative to the library this code
/// lies in: ../lib/jal, ../libexec/jal, jal, the same folder, ../lib (a build tree's programs).
std::vector<std::string> emulator_candidates();

/// The table of the first library that is there. NO_INSTANCE (the message lists every place and the loader's words),
/// ABI_TOO_OLD, ABI_TOO_NEW (both version ranges), HANDSHAKE_REFUSED (no such library at all).
Result<const jal_instance_api*> load_instance_api();

using GetInstanceApi = const jal_instance_api* (*)(uint32_t version);

/// Asks `get` for the version of this driver and checks the table it gives. `where` is for messages.
Result<const jal_instance_api*> check_instance_api(GetInstanceApi get, const std::string& where);

}  // namespace jal::drv
