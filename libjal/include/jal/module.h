/* Modules (.jko, made by jalcc) and their kernels. */
#ifndef JAL_MODULE_H
#define JAL_MODULE_H

#include <jal/abi/module.h>
#include <jal/api.h>

JAL_BEGIN_C

/* Loads a file, or bytes that are the file's contents (copied). FILE_NOT_FOUND, FILE_IO, BAD_MODULE (what is wrong and
 * where), MODULE_ARCH, MODULE_LOAD (the loader's words), MODULE_LIMIT, INVALID_HANDLE, DEVICE_LOST. */
JAL_API jal_status_t jal_module_load(jal_device_t device, const char* path, jal_module_t* out_module) JAL_NOEXCEPT;
JAL_API jal_status_t jal_module_load_bytes(jal_device_t device, const void* bytes, uint64_t byte_count,
                                           jal_module_t* out_module) JAL_NOEXCEPT;

/* Its kernels' handles turn stale. QUEUE_BUSY while the device has pending work. */
JAL_API jal_status_t jal_module_unload(jal_module_t module) JAL_NOEXCEPT;

JAL_API jal_status_t jal_module_kernel_count(jal_module_t module, uint32_t* out_count) JAL_NOEXCEPT;
/* The i-th kernel. INVALID_ARGUMENT past the end. */
JAL_API jal_status_t jal_module_kernel_at(jal_module_t module, uint32_t index, jal_kernel_t* out_kernel) JAL_NOEXCEPT;
/* By name. NO_KERNEL; the message lists the names there are. */
JAL_API jal_status_t jal_module_kernel(jal_module_t module, const char* name, jal_kernel_t* out_kernel) JAL_NOEXCEPT;

typedef struct jal_kernel_info {
  uint32_t struct_size;
  uint32_t index;
  char name[JAL_KERNEL_NAME_BYTES];
  uint32_t argument_bytes; /* of the packed block */
  uint32_t argument_count;
  jal_kernel_argument arguments[JAL_KERNEL_ARGUMENTS_MAX];
  uint64_t reserved[4];
} jal_kernel_info;

/* Set out_info->struct_size first. */
JAL_API jal_status_t jal_kernel_get_info(jal_kernel_t kernel, jal_kernel_info* out_info) JAL_NOEXCEPT;

JAL_END_C
#endif
