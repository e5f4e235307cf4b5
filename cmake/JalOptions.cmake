# Options, compiler flags and third-party packages shared by every folder.
include(GNUInstallDirs)

option(JAL_BUILD_TESTS "Build the test suite" ON)
option(JAL_BUILD_BENCH "Build the benchmark programs" ON)
option(JAL_WERROR "Treat compiler warnings as errors" ON)
option(JAL_CTEST_BUILDS "Let ctest bring the build up to date before its first test (the presets do)" OFF)
option(JAL_TARGET_RV64 "Build the firmware for the chip's RV64 cores (set by cmake/toolchain-rv64.cmake)" OFF)
set(JAL_SANITIZE_BUILD "" CACHE STRING "Sanitizers of this build: empty, 'address' (with undefined) or 'thread'")
set_property(CACHE JAL_SANITIZE_BUILD PROPERTY STRINGS "" address thread)

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_C_STANDARD 11)
set(CMAKE_C_STANDARD_REQUIRED ON)
set(CMAKE_C_EXTENSIONS OFF)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_CXX_VISIBILITY_PRESET hidden)
set(CMAKE_C_VISIBILITY_PRESET hidden)
set(CMAKE_VISIBILITY_INLINES_HIDDEN ON)
if(NOT JAL_TARGET_RV64)
  set(CMAKE_POSITION_INDEPENDENT_CODE ON)
endif()
if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE RelWithDebInfo CACHE STRING "" FORCE)
endif()
# The build tree mirrors an installed prefix, so that libraries find each other the same way in both.
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/bin)
set(CMAKE_LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/lib)
set(CMAKE_ARCHIVE_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/lib)

find_program(JAL_CCACHE ccache)
if(JAL_CCACHE)
  set(CMAKE_C_COMPILER_LAUNCHER ${JAL_CCACHE})
  # What ccache needs to be told about the tests' precompiled header.
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env CCACHE_SLOPPINESS=pch_defines,time_macros ${JAL_CCACHE})
endif()

# One interface target carries the flags of every target of the project.
add_library(jal_flags INTERFACE)
add_library(jal::flags ALIAS jal_flags)
target_compile_options(jal_flags INTERFACE
  -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wno-sign-conversion -Wvla
  $<$<COMPILE_LANGUAGE:CXX>:-Wnon-virtual-dtor -Woverloaded-virtual -Wold-style-cast>
  # GCC 12 sees overlaps in "literal" + std::string that cannot be (GCC bug 105651).
  $<$<AND:$<COMPILE_LANGUAGE:CXX>,$<CXX_COMPILER_ID:GNU>,$<VERSION_LESS:$<CXX_COMPILER_VERSION>,13>>:-Wno-restrict>
  $<$<BOOL:${JAL_WERROR}>:-Werror>
  # Equal bits on every target need every fused multiply-add to be written, never inferred.
  -ffp-contract=off -fno-strict-aliasing)
if(JAL_SANITIZE_BUILD STREQUAL "address")
  target_compile_options(jal_flags INTERFACE -fsanitize=address,undefined -fno-sanitize-recover=undefined -fno-omit-frame-pointer)
  target_link_options(jal_flags INTERFACE -fsanitize=address,undefined)
elseif(JAL_SANITIZE_BUILD STREQUAL "thread")
  target_compile_options(jal_flags INTERFACE -fsanitize=thread -fno-omit-frame-pointer)
  target_link_options(jal_flags INTERFACE -fsanitize=thread)
endif()
target_include_directories(jal_flags INTERFACE ${CMAKE_SOURCE_DIR})

# Bare-metal firmware uses nothing of the host below this line.
if(JAL_TARGET_RV64)
  return()
endif()

find_package(Threads REQUIRED)
find_package(spdlog REQUIRED)
find_package(CLI11 REQUIRED)
find_package(nlohmann_json REQUIRED)
find_package(tomlplusplus REQUIRED)
find_package(PkgConfig REQUIRED)
pkg_check_modules(HWY REQUIRED IMPORTED_TARGET libhwy)
pkg_check_modules(XXHASH REQUIRED IMPORTED_TARGET libxxhash)
pkg_check_modules(PCRE2 REQUIRED IMPORTED_TARGET libpcre2-8)
if(JAL_BUILD_TESTS)
  find_package(GTest REQUIRED)
endif()

# Tests and benchmarks in Python: the venv that `./x setup` makes, else the system's interpreter (such tests then skip visibly).
set(JAL_PYTHON /usr/bin/env python3)
if(EXISTS ${CMAKE_SOURCE_DIR}/.venv/bin/python3)
  set(JAL_PYTHON ${CMAKE_SOURCE_DIR}/.venv/bin/python3)
endif()
