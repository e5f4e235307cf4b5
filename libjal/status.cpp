// Statuses as text. Contract: jal/status.h.
#include <jal/status.h>
#include <strings.h>

#include <cstring>

#include "libjal/call.hpp"

using jal::face::fail;

namespace {

constexpr jal_status_t kStatuses[] = {JAL_OK,
#define JAL_VALUE(name, canonical, unit, detail, text, advice) JAL_ERROR_##name,
                                      JAL_STATUS_LIST(JAL_VALUE)
#undef JAL_VALUE
};

}  // namespace

const char* jal_status_name(jal_status_t status) noexcept { return jal::drv::status_name(status); }
const char* jal_status_text(jal_status_t status) noexcept { return jal::drv::status_text(status); }
const char* jal_status_advice(jal_status_t status) noexcept { return jal::drv::status_advice(status); }

jal_status_t jal_status_from_name(const char* name, jal_status_t* out_status) noexcept {
  return jal::face::guarded([&]() -> jal::drv::Status {
    JAL_RETURN_IF_ERROR(jal::face::check_pointer(name, "name"));
    JAL_RETURN_IF_ERROR(jal::face::check_pointer(out_status, "out_status"));
    constexpr char kPrefix[] = "JAL_ERROR_";
    const char* bare = strncasecmp(name, kPrefix, sizeof kPrefix - 1) == 0 ? name + sizeof kPrefix - 1 : name;
    for (const jal_status_t status : kStatuses) {
      if (strcasecmp(bare, jal::drv::status_name(status)) != 0) continue;
      *out_status = status;
      return {};
    }
    return fail(JAL_ERROR_INVALID_ARGUMENT, "{} is not the name of a status; docs/status.md lists them", name);
  });
}

jal_status_t jal_status_at(uint32_t index, jal_status_t* out_status) noexcept {
  return jal::face::guarded([&]() -> jal::drv::Status {
    JAL_RETURN_IF_ERROR(jal::face::check_pointer(out_status, "out_status"));
    if (index >= std::size(kStatuses)) {
      return fail(JAL_ERROR_INVALID_ARGUMENT, "status number {}: there are {}", index, std::size(kStatuses));
    }
    *out_status = kStatuses[index];
    return {};
  });
}

const char* jal_last_error_message(void) noexcept { return jal::drv::last_error_message(); }
jal_status_t jal_last_error_status(void) noexcept { return jal::drv::last_error_status(); }
