/* Phases, power units, their states, scopes and kinds of figures: one list each, here only.
 * Every power or energy figure carries a scope; every figure says whether it was measured (host) or modelled (device).
 */
#ifndef JAL_ABI_POWER_H
#define JAL_ABI_POWER_H

#include "base.h"

/* Phase of a request, declared by its stream. */
#define JAL_PHASE_IDLE 0
#define JAL_PHASE_PREFILL 1
#define JAL_PHASE_DRAFT 2
#define JAL_PHASE_VERIFY_DECODE 3
#define JAL_PHASE_COUNT 4
/* X(NAME, value, text) */
#define JAL_PHASE_LIST(X) \
  X(IDLE, 0, "idle") X(PREFILL, 1, "prefill") X(DRAFT, 2, "draft") X(VERIFY_DECODE, 3, "verify_decode")

/* Power units: what has a meter of its own. The sum of all units is the package. */
#define JAL_UNIT_MATRIX 0      /* matrix engines */
#define JAL_UNIT_VECTOR 1      /* vector engines */
#define JAL_UNIT_SCALAR 2      /* scalar units, L1, DMA */
#define JAL_UNIT_HBM 3         /* DRAM stacks, controllers, PHY */
#define JAL_UNIT_COLLECTIVE 4  /* collective network */
#define JAL_UNIT_NOC 5         /* shared NoC */
#define JAL_UNIT_LINK_LOCAL 6  /* scale-up links of the local domain */
#define JAL_UNIT_LINK_GLOBAL 7 /* scale-up links of the global domain */
#define JAL_UNIT_UNCORE 8      /* host interface, management core, clocks, the rest of the package */
#define JAL_UNIT_COUNT 9
#define JAL_UNIT_LIST(X)         \
  X(MATRIX, 0, "matrix")         \
  X(VECTOR, 1, "vector")         \
  X(SCALAR, 2, "scalar")         \
  X(HBM, 3, "hbm")               \
  X(COLLECTIVE, 4, "collective") \
  X(NOC, 5, "noc") X(LINK_LOCAL, 6, "link_local") X(LINK_GLOBAL, 7, "link_global") X(UNCORE, 8, "uncore")

/* State of a unit, from most to least power. */
#define JAL_UNIT_STATE_ON 0
#define JAL_UNIT_STATE_CLOCK_GATED 1
#define JAL_UNIT_STATE_RETENTION 2
#define JAL_UNIT_STATE_OFF 3
#define JAL_UNIT_STATE_COUNT 4
#define JAL_UNIT_STATE_LIST(X) X(ON, 0, "on") X(CLOCK_GATED, 1, "clkgate") X(RETENTION, 2, "retain") X(OFF, 3, "off")

/* Scope of a power or energy figure. */
#define JAL_SCOPE_PACKAGE 0
#define JAL_SCOPE_BOARD 1
#define JAL_SCOPE_TRAY 2
#define JAL_SCOPE_RACK 3
#define JAL_SCOPE_FACILITY 4
#define JAL_SCOPE_LIST(X) \
  X(PACKAGE, 0, "package") X(BOARD, 1, "board") X(TRAY, 2, "tray") X(RACK, 3, "rack") X(FACILITY, 4, "facility")

/* Kind of a figure. */
#define JAL_FIGURE_MEASURED 0 /* a clock or counter of the host */
#define JAL_FIGURE_MODELLED 1 /* from the chip's model file */

/* Clock a device keeps: virtual (modelled work only) or live (follows the wall). */
#define JAL_CLOCK_VIRTUAL 0
#define JAL_CLOCK_LIVE 1

#endif
