# jal_kernel_library(NAME ops_llama SOURCES ... [INCLUDES dirs...] [OPTIONS words...] [DESTINATION dir]): a .jko made by
# jalcc, with further OPTIONS of jalcc, target jal_NAME.
#
# The build tree has include/jal as an installed prefix does, so that jalcc finds the SDK's headers the same way in both.
foreach(part IN ITEMS firmware/abi/include/jal/abi firmware/kernel/include/jal/kernel firmware/ops/include/jal/ops)
  get_filename_component(leaf ${part} NAME)
  file(MAKE_DIRECTORY ${CMAKE_BINARY_DIR}/include/jal)
  if(NOT EXISTS ${CMAKE_BINARY_DIR}/include/jal/${leaf})
    file(CREATE_LINK ${CMAKE_SOURCE_DIR}/${part} ${CMAKE_BINARY_DIR}/include/jal/${leaf} SYMBOLIC)
  endif()
endforeach()

function(jal_kernel_library)
  cmake_parse_arguments(A "" "NAME;DESTINATION" "SOURCES;INCLUDES;OPTIONS" ${ARGN})
  if(NOT A_DESTINATION)
    set(A_DESTINATION ${CMAKE_BINARY_DIR}/lib/jal/ops)
  endif()
  set(output ${A_DESTINATION}/${A_NAME}.jko)
  set(sources)
  foreach(source IN LISTS A_SOURCES)
    get_filename_component(source ${source} ABSOLUTE)
    list(APPEND sources ${source})
  endforeach()
  set(includes)
  foreach(dir IN LISTS A_INCLUDES)
    list(APPEND includes -I ${dir})
  endforeach()
  file(MAKE_DIRECTORY ${A_DESTINATION})
  add_custom_command(OUTPUT ${output}
    COMMAND jalcc -o ${output} --depfile ${output}.d ${A_OPTIONS} ${includes} ${sources}
    DEPENDS jalcc ${sources} DEPFILE ${output}.d COMMENT "Compiling kernels ${A_NAME}.jko" VERBATIM)
  add_custom_target(jal_${A_NAME} ALL DEPENDS ${output})
  set_target_properties(jal_${A_NAME} PROPERTIES JAL_KERNEL_FILE ${output})
endfunction()
