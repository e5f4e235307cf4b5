/* The .jko module: kernels of one library, with up to one code section per architecture. Made by jalcc.
 *
 * File: header, kernel table, code sections. All offsets are from the file's start. The reader checks magic, version,
 * every range, and the checksum (FNV-1a 64 over the whole file with the checksum field taken as zero) before it uses
 * anything. */
#ifndef JAL_ABI_MODULE_H
#define JAL_ABI_MODULE_H

#include "base.h"
#include "tensor.h"

#define JAL_MODULE_MAGIC 0x314f4b4au /* "JKO1" */
#define JAL_MODULE_VERSION 1u
#define JAL_MODULE_KERNELS_MAX 256u
#define JAL_KERNEL_ARGUMENTS_MAX 24u
#define JAL_KERNEL_NAME_BYTES 64u

#define JAL_ARCH_NATIVE_X86_64 1u /* an ELF shared object for the emulator's host */
#define JAL_ARCH_RV64IMAC 2u      /* an ELF executable for the chip's scalar cores */

#define JAL_ARGUMENT_U32 1u
#define JAL_ARGUMENT_I32 2u
#define JAL_ARGUMENT_F32 3u
#define JAL_ARGUMENT_U64 4u
#define JAL_ARGUMENT_I64 5u
#define JAL_ARGUMENT_F64 6u
#define JAL_ARGUMENT_TENSOR 7u  /* jal_tensor_info by value; its range is checked at dispatch */
#define JAL_ARGUMENT_ADDRESS 8u /* device address; not checked at dispatch, checked at use */
#define JAL_ARGUMENT_BYTES 9u   /* a trivially copyable struct by value */

/* Size of an argument's value by its type; 0: JAL_ARGUMENT_BYTES, whose size its kernel says, or no type at all. */
static inline uint32_t jal_argument_type_bytes(uint32_t type) {
  switch (type) {
    case JAL_ARGUMENT_U32:
    case JAL_ARGUMENT_I32:
    case JAL_ARGUMENT_F32:
      return 4;
    case JAL_ARGUMENT_U64:
    case JAL_ARGUMENT_I64:
    case JAL_ARGUMENT_F64:
    case JAL_ARGUMENT_ADDRESS:
      return 8;
    case JAL_ARGUMENT_TENSOR:
      return sizeof(jal_tensor_info);
    default:
      return 0;
  }
}

typedef struct jal_kernel_argument {
  uint16_t type;   /* JAL_ARGUMENT_* */
  uint16_t offset; /* in the argument block, naturally aligned (tensors: 8) */
  uint32_t bytes;
} jal_kernel_argument;
JAL_ABI_SIZE(jal_kernel_argument, 8);

/* One entry of the kernel table. The kernel SDK's JAL_KERNEL macro emits it into the ELF section "jal_kernels". */
typedef struct jal_kernel_entry {
  char name[JAL_KERNEL_NAME_BYTES];   /* public name, NUL-terminated */
  char symbol[JAL_KERNEL_NAME_BYTES]; /* symbol of void f(struct jal_core*), NUL-terminated */
  uint32_t argument_bytes;            /* size of the argument block, <= JAL_ARGUMENT_BYTES_MAX */
  uint32_t argument_count;
  jal_kernel_argument arguments[JAL_KERNEL_ARGUMENTS_MAX];
  uint32_t reserved[14];
} jal_kernel_entry;
JAL_ABI_SIZE(jal_kernel_entry, 384);

typedef struct jal_module_section {
  uint32_t arch; /* JAL_ARCH_*; 0 = unused entry */
  uint32_t reserved;
  uint64_t offset; /* multiple of 64 */
  uint64_t bytes;
} jal_module_section;
JAL_ABI_SIZE(jal_module_section, 24);

typedef struct jal_module_header {
  uint32_t magic;
  uint32_t version;
  uint64_t file_bytes;
  uint64_t checksum;
  uint8_t build_id[32]; /* identity of the code sections: equal id = equal code */
  uint32_t kernel_count;
  uint32_t kernel_core_version; /* JAL_CORE_VERSION of the kernel SDK it was built with */
  uint64_t kernel_offset;
  jal_module_section sections[4];
  uint64_t reserved[11];
} jal_module_header;
JAL_ABI_SIZE(jal_module_header, 256);

#endif
