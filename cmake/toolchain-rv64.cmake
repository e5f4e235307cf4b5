# Cross toolchain for the chip's own cores: rv64imac, LP64 without floating-point registers, freestanding (no libc, no heap,
# no exceptions). Debian has no C++ headers for riscv64-unknown-elf, so the Linux cross compiler's are used with one empty stub.
set(CMAKE_SYSTEM_NAME Generic)
set(CMAKE_SYSTEM_PROCESSOR riscv64)
set(CMAKE_C_COMPILER riscv64-linux-gnu-gcc)
set(CMAKE_CXX_COMPILER riscv64-linux-gnu-g++)
set(CMAKE_TRY_COMPILE_TARGET_TYPE STATIC_LIBRARY)
set(JAL_TARGET_RV64 ON CACHE BOOL "" FORCE)
set(JAL_BUILD_TESTS OFF CACHE BOOL "" FORCE)
set(JAL_BUILD_BENCH OFF CACHE BOOL "" FORCE)
set(JAL_SIZE_PROGRAM riscv64-linux-gnu-size)

set(rv64_flags "-march=rv64imac -mabi=lp64 -mcmodel=medany -ffreestanding -fno-pic -fno-stack-protector -ffunction-sections -fdata-sections -isystem ${CMAKE_CURRENT_LIST_DIR}/rv64_include")
set(CMAKE_C_FLAGS_INIT "${rv64_flags}")
set(CMAKE_ASM_FLAGS_INIT "${rv64_flags}")
set(CMAKE_CXX_FLAGS_INIT "${rv64_flags} -fno-exceptions -fno-rtti -fno-threadsafe-statics -fno-use-cxa-atexit")
# libgcc for this ABI comes with gcc-riscv64-unknown-elf; the Linux one is built for LP64D.
execute_process(COMMAND riscv64-unknown-elf-gcc -march=rv64imac -mabi=lp64 -print-libgcc-file-name
  OUTPUT_VARIABLE JAL_RV64_LIBGCC OUTPUT_STRIP_TRAILING_WHITESPACE)
set(CMAKE_EXE_LINKER_FLAGS_INIT "-nostdlib -nostartfiles -static -Wl,--gc-sections -Wl,--build-id=sha1 -no-pie")
set(CMAKE_C_STANDARD_LIBRARIES "${JAL_RV64_LIBGCC}")
set(CMAKE_CXX_STANDARD_LIBRARIES "${JAL_RV64_LIBGCC}")
