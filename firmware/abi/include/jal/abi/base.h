/* Ground rules of the contract between host, firmware and chip.
 *
 * What it is: macros every other header of this folder uses. It includes nothing but the two freestanding standard
 * headers. Rules of the contract (the full text is firmware/abi/README.md):
 *  - little endian, natural alignment, no packed structs, no bit fields, no C enums or bools in shared structs;
 *  - padding is explicit, named reserved*, written zero and checked zero by the reader;
 *  - a number is defined once, here; lists only grow; a retired number is never reused;
 *  - whatever a peer can write is hostile: copy it, check the copy, use the copy. */
#ifndef JAL_ABI_BASE_H
#define JAL_ABI_BASE_H

#include <stddef.h>
#include <stdint.h>

/* JAL_ABI_CAST: a conversion that neither language's compiler warns of in the user's code. */
#ifdef __cplusplus
  #define JAL_ABI_ASSERT(cond, text) static_assert(cond, text)
  #define JAL_ABI_CAST(type, value) static_cast<type>(value)
#else
  #define JAL_ABI_ASSERT(cond, text) _Static_assert(cond, text)
  #define JAL_ABI_CAST(type, value) ((type)(value))
#endif

/* Size and offset of a shared struct are part of the contract: a change is a new ABI version. */
#define JAL_ABI_SIZE(type, bytes) JAL_ABI_ASSERT(sizeof(type) == (bytes), #type " must be " #bytes " bytes")
#define JAL_ABI_OFFSET(type, field, bytes) \
  JAL_ABI_ASSERT(offsetof(type, field) == (bytes), #type "." #field " must be at byte " #bytes)

#endif
