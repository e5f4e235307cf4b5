// Kernels of ops_llama.jko. See jal/ops/llama.h for the arguments.
#include "firmware/ops/llama/model.hpp"
#include "firmware/ops/llama/parts.hpp"

using jal::kernel::Core;

JAL_KERNEL(llama_step, Core& core, jal_llama_step args) { jal::ops::llama::run_step(core, args); }

#define JAL_LLAMA_PART(name, ...) \
  JAL_KERNEL(llama_##name, Core& core, jal_llama_step step, jal_llama_part part) { jal::ops::llama::__VA_ARGS__; }
JAL_LLAMA_PART(embed, part_embed(core, step, part))
JAL_LLAMA_PART(rmsnorm, part_rmsnorm(core, step, part))
JAL_LLAMA_PART(gemm_bf16_f32, part_gemm(core, step, part, JAL_DTYPE_BF16))
JAL_LLAMA_PART(gemm_mxfp8_bf16, part_gemm(core, step, part, JAL_DTYPE_MXFP8))
JAL_LLAMA_PART(gemm_mxfp4_bf16, part_gemm(core, step, part, JAL_DTYPE_MXFP4))
JAL_LLAMA_PART(rope, part_rope(core, step, part))
JAL_LLAMA_PART(attention, part_attention(core, step, part))
JAL_LLAMA_PART(swiglu, part_swiglu(core, step, part))
JAL_LLAMA_PART(residual, part_residual(core, step, part))
JAL_LLAMA_PART(sample, part_sample(core, step, part))
