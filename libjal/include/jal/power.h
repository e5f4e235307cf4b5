/* Names of phases, power units, their states, scopes and kinds of figures (jal/abi/power.h). Static; "unknown"
 * otherwise. */
#ifndef JAL_POWER_H
#define JAL_POWER_H

#include <jal/abi/power.h>
#include <jal/api.h>

JAL_BEGIN_C

JAL_API const char* jal_phase_name(uint32_t phase) JAL_NOEXCEPT;            /* "verify_decode" */
JAL_API const char* jal_power_unit_name(uint32_t unit) JAL_NOEXCEPT;        /* "matrix" */
JAL_API const char* jal_power_state_name(uint32_t unit_state) JAL_NOEXCEPT; /* "clkgate" */
JAL_API const char* jal_power_scope_name(uint32_t scope) JAL_NOEXCEPT;      /* "package" */
JAL_API const char* jal_figure_kind_name(uint32_t kind) JAL_NOEXCEPT;       /* "measured", "modelled" */
JAL_API const char* jal_clock_kind_name(uint32_t kind) JAL_NOEXCEPT;        /* "virtual", "live" */

JAL_END_C
#endif
