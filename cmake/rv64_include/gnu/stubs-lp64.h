/* Empty on purpose: glibc's <features.h> asks for this file when the ABI is LP64 without floating-point registers. */
