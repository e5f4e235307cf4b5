# jal_library, jal_executable, jal_test: one call a target, with the project's flags and an alias jal::NAME.

# jal_library(NAME x [SHARED|STATIC|INTERFACE|OBJECT] [SOURCES ...] [DEPS public...] [PRIVATE_DEPS ...] [INCLUDES dirs...])
function(jal_library)
  cmake_parse_arguments(A "SHARED;STATIC;INTERFACE;OBJECT" "NAME" "SOURCES;DEPS;PRIVATE_DEPS;INCLUDES" ${ARGN})
  set(target jal_${A_NAME})
  if(A_INTERFACE)
    add_library(${target} INTERFACE)
    target_include_directories(${target} INTERFACE ${A_INCLUDES})
    target_link_libraries(${target} INTERFACE ${A_DEPS})
  else()
    set(kind STATIC)
    if(A_SHARED)
      set(kind SHARED)
    elseif(A_OBJECT)
      set(kind OBJECT)
    endif()
    add_library(${target} ${kind} ${A_SOURCES})
    target_include_directories(${target} PUBLIC ${A_INCLUDES})
    target_link_libraries(${target} PUBLIC ${A_DEPS} PRIVATE jal::flags ${A_PRIVATE_DEPS})
  endif()
  add_library(jal::${A_NAME} ALIAS ${target})
endfunction()

# jal_executable(NAME x SOURCES ... DEPS ...): installed, it finds the project's libraries beside itself.
function(jal_executable)
  cmake_parse_arguments(A "" "NAME" "SOURCES;DEPS" ${ARGN})
  add_executable(${A_NAME} ${A_SOURCES})
  target_link_libraries(${A_NAME} PRIVATE jal::flags ${A_DEPS})
  set_target_properties(${A_NAME} PROPERTIES INSTALL_RPATH "$ORIGIN/../${CMAKE_INSTALL_LIBDIR}")
endfunction()

# jal_test(NAME unit.driver.queue SOURCES ... DEPS ... [LABELS ...] [TIMEOUT s] [ENV A=b ...] [NEEDS targets...]):
# a GoogleTest executable that ctest runs. NEEDS are targets it opens at run time (a dlopened library, a program it starts).
# Labels with a meaning: `concurrent` (several threads touch shared state: also runs under ThreadSanitizer, where all others are
# left out), `no_asan` (left out of the AddressSanitizer build; say why beside it), `model` (needs the real model), `slow`.
function(jal_test)
  cmake_parse_arguments(A "" "NAME;TIMEOUT" "SOURCES;DEPS;LABELS;ENV;NEEDS" ${ARGN})
  if((JAL_SANITIZE_BUILD STREQUAL "thread" AND NOT "concurrent" IN_LIST A_LABELS) OR
     (JAL_SANITIZE_BUILD STREQUAL "address" AND "no_asan" IN_LIST A_LABELS))
    return()
  endif()
  string(REPLACE "." "_" target "test_${A_NAME}")
  add_executable(${target} ${A_SOURCES})
  target_precompile_headers(${target} REUSE_FROM jal_test_headers)
  # From a precompiled header g++ 12 shows its false alarms about std::string (GCC bug 105651), which it hides in a system header.
  target_compile_options(${target} PRIVATE -Wno-array-bounds -Wno-stringop-overflow -Wno-stringop-overread)
  target_link_libraries(${target} PRIVATE jal::flags GTest::gmock GTest::gtest_main ${A_DEPS})
  set_target_properties(${target} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
  if(A_NEEDS)
    add_dependencies(${target} ${A_NEEDS})
  endif()
  add_test(NAME ${A_NAME} COMMAND ${target})
  if(NOT A_TIMEOUT)
    set(A_TIMEOUT 120)
  endif()
  set_tests_properties(${A_NAME} PROPERTIES TIMEOUT ${A_TIMEOUT} LABELS "${A_LABELS}" ENVIRONMENT "${A_ENV}")
endfunction()

# jal_python_test(NAME x SCRIPT file.py [ARGS ...] [LABELS ...] [TIMEOUT s] [ENV A=b ...]): a script that ctest runs in the
# project's venv; it finds the build in JAL_BUILD_DIR; exit status 77 means skipped. Not run under sanitizers.
function(jal_python_test)
  cmake_parse_arguments(A "" "NAME;SCRIPT;TIMEOUT" "ARGS;LABELS;ENV" ${ARGN})
  if(JAL_SANITIZE_BUILD)
    return()
  endif()
  cmake_path(ABSOLUTE_PATH A_SCRIPT BASE_DIRECTORY ${CMAKE_CURRENT_SOURCE_DIR})
  add_test(NAME ${A_NAME} COMMAND ${JAL_PYTHON} ${A_SCRIPT} ${A_ARGS})
  if(NOT A_TIMEOUT)
    set(A_TIMEOUT 120)
  endif()
  set_tests_properties(${A_NAME} PROPERTIES TIMEOUT ${A_TIMEOUT} LABELS "${A_LABELS}" SKIP_RETURN_CODE 77
    ENVIRONMENT "PYTHONDONTWRITEBYTECODE=1;JAL_BUILD_DIR=${CMAKE_BINARY_DIR};${A_ENV}")
endfunction()

# jal_bench(NAME bench_<area>[_<part>] SOURCES ... DEPS ... [NEEDS targets...]): a program that `./x bench <area>` runs;
# with --json it prints one object per line (docs/benchmarks.md), without it is free to print a table.
function(jal_bench)
  cmake_parse_arguments(A "" "NAME" "SOURCES;DEPS;NEEDS" ${ARGN})
  if(NOT JAL_BUILD_BENCH)
    return()
  endif()
  jal_executable(NAME ${A_NAME} SOURCES ${A_SOURCES} DEPS ${A_DEPS})
  if(A_NEEDS)
    add_dependencies(${A_NAME} ${A_NEEDS})
  endif()
endfunction()
