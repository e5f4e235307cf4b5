/* TensorInfo: the one descriptor of a tensor's shape, layout AND physical placement, from the public API to the kernel.
 *
 * A placement is a list of up to 8 mixed-radix factors, outer to inner. Each factor takes a share of one logical
 * dimension and binds it to a place. The index i of dimension d is split over the factors of d in list order (the last
 * one varies fastest); the product of their extents is >= dims[d], what lies between is padding. dim = -1 replicates
 * over the place. rows 576 over 64 slices, blocks of 9:  {0,64,SLICE} {0,9,LINEAR} {1,576,LINEAR} the same rows dealt
 * cyclically:        {0,9,LINEAR} {0,64,SLICE} {1,576,LINEAR} a vector on every slice:               {-1,64,SLICE}
 * {0,576,LINEAR} SLICE factors together number the slices of slice_mask in ascending order; LINEAR factors together
 * give the element's index within the slice, row-major in list order. No power of two is assumed anywhere (2880, 48
 * slices). The base offset is equal in all slices of the mask (symmetric heap). */
#ifndef JAL_ABI_TENSOR_H
#define JAL_ABI_TENSOR_H

#include "base.h"

#define JAL_DTYPE_F32 1u
#define JAL_DTYPE_BF16 2u
#define JAL_DTYPE_F16 3u
#define JAL_DTYPE_I32 4u
#define JAL_DTYPE_U32 5u
#define JAL_DTYPE_I8 6u
#define JAL_DTYPE_U8 7u
#define JAL_DTYPE_E4M3 8u
#define JAL_DTYPE_MXFP8 9u  /* E4M3 elements, one E8M0 scale per 32 along the last dimension */
#define JAL_DTYPE_MXFP4 10u /* E2M1 elements, one E8M0 scale per 32 along the last dimension */
/* X(NAME, value, text, bits per element without scales) */
#define JAL_DTYPE_LIST(X) \
  X(F32, 1, "f32", 32)    \
  X(BF16, 2, "bf16", 16)  \
  X(F16, 3, "f16", 16)    \
  X(I32, 4, "i32", 32)    \
  X(U32, 5, "u32", 32)    \
  X(I8, 6, "i8", 8) X(U8, 7, "u8", 8) X(E4M3, 8, "e4m3", 8) X(MXFP8, 9, "mxfp8", 8) X(MXFP4, 10, "mxfp4", 4)

#define JAL_TILING_ROW_MAJOR 0u
#define JAL_TILING_ENGINE                                                                            \
  1u /* the matrix engine's weight tile: the slice's rows of a 2-D tensor as one opaque tile, in the \
        byte order of docs/engine_numerics.md; upload and download convert */

#define JAL_PLACE_LINEAR 0u /* within the slice's bytes */
#define JAL_PLACE_SLICE 1u  /* over the slices of the mask */

#define JAL_TENSOR_DIMS 6
#define JAL_TENSOR_FACTORS 8
#define JAL_MX_BLOCK 32u

typedef struct jal_tensor_factor {
  int16_t dim; /* logical dimension, or -1: replicated */
  uint16_t place;
  uint32_t extent; /* >= 1 */
} jal_tensor_factor;
JAL_ABI_SIZE(jal_tensor_factor, 8);

typedef struct jal_tensor_info {
  uint32_t struct_size; /* 256 */
  uint32_t dtype;
  uint32_t tiling;
  uint32_t ndim;                  /* 1..6 */
  uint64_t dims[JAL_TENSOR_DIMS]; /* elements; unused ones are 1 */
  uint32_t nfactors;              /* 1..8 */
  uint32_t reserved0;
  jal_tensor_factor factors[JAL_TENSOR_FACTORS];
  uint64_t slice_mask;
  uint64_t offset;          /* of element 0 in every slice of the mask, a multiple of 64 */
  uint64_t bytes_per_slice; /* what the layout needs in each slice */
  uint64_t reserved1[12];
} jal_tensor_info;
JAL_ABI_SIZE(jal_tensor_info, 256);
JAL_ABI_OFFSET(jal_tensor_info, dims, 16);
JAL_ABI_OFFSET(jal_tensor_info, factors, 72);
JAL_ABI_OFFSET(jal_tensor_info, slice_mask, 136);

#endif
