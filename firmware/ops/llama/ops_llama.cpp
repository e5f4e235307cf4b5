// Kernels of ops_llama.jko. See jal/ops/llama.h for the arguments.
#include "firmware/ops/llama/model.hpp"

using jal::kernel::Core;

JAL_KERNEL(llama_step, Core& core, jal_llama_step args) { jal::ops::llama::run_step(core, args); }
