/* Device addresses: 64 bits, one space for HBM, host memory and L1 windows.
 *
 *   HBM          1 << 40 | slice << 32 | offset         offset below the slice's size; beyond it faults
 *   host window  2 << 40 | window << 32 | offset        memory a client registered (shared instances)
 *   L1 window    3 << 40 | core << 32 | offset          another core's L1; only kernels on that chip
 *   host VA      bit 63 | virtual address               the client's own memory; only with JAL_FEATURE_HOST_VA, which a
 *                                                       device grants to a client living in its own process
 * Ownership is kept in pages of 64 KiB of HBM. */
#ifndef JAL_ABI_ADDRESS_H
#define JAL_ABI_ADDRESS_H

#include "base.h"

#define JAL_PAGE_BYTES 65536u
#define JAL_PAGE_SHIFT 16
#define JAL_MAX_SLICES 64
#define JAL_MAX_CORES 64

#define JAL_SPACE_HBM 1u
#define JAL_SPACE_HOST_WINDOW 2u
#define JAL_SPACE_L1 3u

#define JAL_ADDRESS_HOST_VA_BIT (1ull << 63)
#define JAL_ADDRESS_SPACE(a) JAL_ABI_CAST(uint32_t, JAL_ABI_CAST(uint64_t, a) >> 40)
#define JAL_ADDRESS_SLICE(a) (JAL_ABI_CAST(uint32_t, JAL_ABI_CAST(uint64_t, a) >> 32) & 0xffu)
#define JAL_ADDRESS_OFFSET(a) JAL_ABI_CAST(uint32_t, JAL_ABI_CAST(uint64_t, a))
#define JAL_ADDRESS_HBM(slice, offset)                                                     \
  ((JAL_ABI_CAST(uint64_t, JAL_SPACE_HBM) << 40) | (JAL_ABI_CAST(uint64_t, slice) << 32) | \
   JAL_ABI_CAST(uint64_t, offset))
#define JAL_ADDRESS_IS_HOST_VA(a) ((JAL_ABI_CAST(uint64_t, a) & JAL_ADDRESS_HOST_VA_BIT) != 0)

#endif
