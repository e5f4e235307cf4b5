// Names of the contract's enumerations. Contract: jal/power.h; jal_dtype_name in jal/tensor.h.
#include <jal/power.h>
#include <jal/tensor.h>

#define JAL_NAME_CASE(name, value, text) \
  case value:                            \
    return text;

const char* jal_phase_name(uint32_t phase) noexcept {
  switch (phase) {
    JAL_PHASE_LIST(JAL_NAME_CASE)
    default:
      return "unknown";
  }
}

const char* jal_power_unit_name(uint32_t unit) noexcept {
  switch (unit) {
    JAL_UNIT_LIST(JAL_NAME_CASE)
    default:
      return "unknown";
  }
}

const char* jal_power_state_name(uint32_t unit_state) noexcept {
  switch (unit_state) {
    JAL_UNIT_STATE_LIST(JAL_NAME_CASE)
    default:
      return "unknown";
  }
}

const char* jal_power_scope_name(uint32_t scope) noexcept {
  switch (scope) {
    JAL_SCOPE_LIST(JAL_NAME_CASE)
    default:
      return "unknown";
  }
}

const char* jal_figure_kind_name(uint32_t kind) noexcept {
  switch (kind) {
    JAL_NAME_CASE(MEASURED, JAL_FIGURE_MEASURED, "measured")
    JAL_NAME_CASE(MODELLED, JAL_FIGURE_MODELLED, "modelled")
    default:
      return "unknown";
  }
}

const char* jal_clock_kind_name(uint32_t kind) noexcept {
  switch (kind) {
    JAL_NAME_CASE(VIRTUAL, JAL_CLOCK_VIRTUAL, "virtual")
    JAL_NAME_CASE(LIVE, JAL_CLOCK_LIVE, "live")
    default:
      return "unknown";
  }
}

const char* jal_dtype_name(uint32_t dtype) noexcept {
#define JAL_DTYPE_CASE(name, value, text, bits) JAL_NAME_CASE(name, value, text)
  switch (dtype) {
    JAL_DTYPE_LIST(JAL_DTYPE_CASE)
    default:
      return "unknown";
  }
#undef JAL_DTYPE_CASE
}
