/* Memory of a device, placed by HBM slice, and memory of the host that a device reaches.
 *
 * An allocation takes the same offset in every slice of its mask (symmetric heap): slice s holds bytes_per_slice bytes
 * at JAL_ADDRESS_HBM(s, offset). One slice in the mask = an allocation on that slice. HBM is granted in pages of 64 KiB
 * per slice, zeroed, and never moves. */
#ifndef JAL_MEMORY_H
#define JAL_MEMORY_H

#include <jal/abi/address.h>
#include <jal/api.h>

JAL_BEGIN_C

#define JAL_MEMORY_HOST_VISIBLE 1u /* host memory that the device reaches over its host link; slice_mask must be 0 */
#define JAL_MEMORY_PINNED \
  2u /* host-visible: locked into RAM (fails where the system's limit forbids it); HBM never moves anyway */

typedef struct jal_memory_options {
  uint32_t struct_size;
  uint32_t flags;           /* JAL_MEMORY_* */
  uint64_t slice_mask;      /* which slices; 0 = all of the device */
  uint64_t bytes_per_slice; /* in each of them; host-visible: in all. At least 1 */
  uint64_t reserved[4];
} jal_memory_options;

typedef struct jal_memory_info {
  uint32_t struct_size;
  uint32_t flags;
  uint64_t slice_mask;        /* 0 for host-visible memory */
  uint64_t bytes_per_slice;   /* as asked for */
  uint64_t granted_per_slice; /* whole pages */
  uint64_t offset;            /* in every slice of the mask */
  jal_address_t address;      /* of the first byte in the lowest slice, or of the host memory */
  void* host_pointer;         /* host-visible memory, else NULL */
  uint64_t reserved[4];
} jal_memory_info;

/* Allocates. OUT_OF_DEVICE_MEMORY (the message names the slice that lacks pages and what others have), HOST_BUDGET (the
 * emulator's host memory is spent), BAD_SLICE_MASK, OUT_OF_HOST_MEMORY, NO_PERMISSION (pinning), INVALID_ARGUMENT,
 * WRONG_STRUCT_SIZE, RESERVED_NOT_ZERO, INVALID_HANDLE, DEVICE_LOST, FIRMWARE_HUNG. */
JAL_API jal_status_t jal_memory_alloc(jal_device_t device, const jal_memory_options* options,
                                      jal_memory_t* out_memory) JAL_NOEXCEPT;

/* Gives it back; its contents are gone. MEMORY_BUSY while queued work may use it: synchronise first. STALE_HANDLE when
 * it was freed before. */
JAL_API jal_status_t jal_memory_free(jal_memory_t memory) JAL_NOEXCEPT;

/* Set out_info->struct_size first. */
JAL_API jal_status_t jal_memory_get_info(jal_memory_t memory, jal_memory_info* out_info) JAL_NOEXCEPT;

/* Address of byte `offset` of the memory's part in `slice` (host-visible: slice is ignored). BAD_SLICE_MASK when the
 * memory has no part there, BAD_ADDRESS when offset >= bytes_per_slice. */
JAL_API jal_status_t jal_memory_address(jal_memory_t memory, uint32_t slice, uint64_t offset,
                                        jal_address_t* out_address) JAL_NOEXCEPT;

/* The host's pointer to host-visible memory. NOT_HOST_VISIBLE for HBM. */
JAL_API jal_status_t jal_memory_map(jal_memory_t memory, void** out_pointer) JAL_NOEXCEPT;

/* Pinned host buffer: host memory, touched and locked where the system's limit allows, which copies reach directly.
 * 64-byte aligned at least. OUT_OF_HOST_MEMORY, INVALID_ARGUMENT. */
JAL_API jal_status_t jal_host_alloc(jal_device_t device, uint64_t bytes, void** out_pointer) JAL_NOEXCEPT;

/* INVALID_HANDLE if the pointer is not one of a live jal_host_alloc, MEMORY_BUSY while queued work may use it. */
JAL_API jal_status_t jal_host_free(void* pointer) JAL_NOEXCEPT;

/* HBM in four layers: chip = usable + reserved; free is what is left of usable. Bytes; of one slice or of the chip. */
typedef struct jal_memory_layers {
  uint32_t struct_size;
  uint32_t slice;              /* JAL_MEMORY_ALL_SLICES, or which */
  uint64_t chip_bytes;         /* what the package has */
  uint64_t reserved_bytes;     /* kept by firmware */
  uint64_t usable_bytes;       /* what clients can get */
  uint64_t free_bytes;         /* of it, not granted to anybody */
  uint64_t used_by_me_bytes;   /* granted to this process */
  uint64_t largest_free_bytes; /* the largest allocation one slice could grant now (chip: the least of all slices) */
  uint64_t host_budget_bytes;  /* emulator: host memory that grants may take in all, and what they took */
  uint64_t host_used_bytes;
  uint64_t reserved[4];
} jal_memory_layers;
#define JAL_MEMORY_ALL_SLICES UINT32_MAX

/* Set out_layers->struct_size first. BAD_SLICE_MASK for a slice the device does not have. */
JAL_API jal_status_t jal_memory_query(jal_device_t device, uint32_t slice, jal_memory_layers* out_layers) JAL_NOEXCEPT;

JAL_END_C
#endif
