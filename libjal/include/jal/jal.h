/* Everything of the C face, one header per noun. C++: <jal/jal.hpp>. */
#ifndef JAL_JAL_H
#define JAL_JAL_H

#include <jal/clock.h>
#include <jal/copy.h>
#include <jal/device.h>
#include <jal/event.h>
#include <jal/fidelity.h>
#include <jal/init.h>
#include <jal/launch.h>
#include <jal/memory.h>
#include <jal/module.h>
#include <jal/power.h>
#include <jal/status.h>
#include <jal/stream.h>
#include <jal/telemetry.h>
#include <jal/tensor.h>
#include <jal/text.h>
#include <jal/trace.h>

#endif
