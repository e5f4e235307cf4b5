// Traces. Contract: jal/trace.h.
#include "runtime/trace/trace.hpp"

#include <jal/trace.h>

#include "libjal/call.hpp"

using namespace jal::face;  // NOLINT: this file is nothing but its C face

jal_status_t jal_trace_start(const char* path) noexcept {
  return guarded([&]() -> Status {
    JAL_RETURN_IF_ERROR(check_pointer(path, "path"));
    auto library = jal::rt::Library::get();
    if (!library.ok()) return library.status();
    return jal::rt::Trace::start((*library)->instance(), path);
  });
}

jal_status_t jal_trace_stop(uint64_t* out_spans) noexcept {
  return guarded([&]() -> Status {
    auto library = jal::rt::Library::get();
    if (!library.ok()) return library.status();
    return jal::rt::Trace::stop(out_spans);
  });
}
