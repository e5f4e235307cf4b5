/* Devices: how many there are, what each one is, time without work. */
#ifndef JAL_DEVICE_H
#define JAL_DEVICE_H

#include <jal/abi/power.h>
#include <jal/abi/session.h>
#include <jal/api.h>

JAL_BEGIN_C

/* What a device is. Constant while the library is initialised. */
typedef struct jal_device_info {
  uint32_t struct_size;
  uint32_t index;
  char model[32]; /* "jal1-a0" */
  char uuid[40];  /* 8-4-4-4-12 hexadecimal, NUL-terminated */
  uint32_t cores;
  uint32_t slices;    /* HBM slices; core n's own is slice n */
  uint32_t grid_rows; /* cores = grid_rows * grid_cols; number = row * grid_cols + col */
  uint32_t grid_cols;
  uint32_t l1_bytes;             /* per core */
  uint32_t clock_kind;           /* JAL_CLOCK_* */
  uint64_t slice_bytes;          /* usable HBM of one slice */
  uint64_t chip_bytes;           /* all HBM of the package */
  uint64_t reserved_bytes;       /* of it, kept by firmware */
  uint64_t hbm_bytes_per_second; /* all slices together */
  uint64_t clock_hz;
  uint64_t core_mask;            /* all cores */
  uint64_t slice_mask;           /* all slices */
  uint64_t features;             /* JAL_FEATURE_* of jal/abi/session.h */
  uint32_t rated_milliwatts;     /* package scope */
  uint32_t sustained_milliwatts; /* package scope */
  uint32_t abi_version;          /* the contract version in use */
  uint32_t page_bytes;           /* HBM is granted in pages of this size, per slice */
  char firmware_version[24];
  uint64_t reserved[8];
} jal_device_info;

/* Devices of the instance. NOT_INITIALISED, FORKED. */
JAL_API jal_status_t jal_device_count(uint32_t* out_count) JAL_NOEXCEPT;

/* The device of an index below jal_device_count; the same handle each time, valid until jal_shutdown. Opens the session
 * on first use. NO_DEVICE, NOT_INITIALISED, FORKED, HANDSHAKE_REFUSED, ABI_TOO_OLD, ABI_TOO_NEW, TOO_MANY_CLIENTS,
 * DEVICE_LOST. */
JAL_API jal_status_t jal_device_get(uint32_t index, jal_device_t* out_device) JAL_NOEXCEPT;

/* Set out_info->struct_size first. INVALID_HANDLE, WRONG_STRUCT_SIZE. */
JAL_API jal_status_t jal_device_get_info(jal_device_t device, jal_device_info* out_info) JAL_NOEXCEPT;

/* Lets device time pass without work, as if the chip idled for `idle_ns` (at most one hour per call): power states
 * settle, idle energy accrues. Returns when the device has done so; work of other streams is not held up.
 * INVALID_ARGUMENT (more than an hour), TIMEOUT, DEVICE_LOST. */
JAL_API jal_status_t jal_device_idle(jal_device_t device, uint64_t idle_ns, uint64_t deadline_ns) JAL_NOEXCEPT;

JAL_END_C
#endif
