# What an installed copy needs beside the programs: libjal.so, the headers of host, contract and kernels, pkg-config, CMake package.
# The emulator, the models and each tool install themselves. Everything finds its neighbours relative to itself.
include(CMakePackageConfigHelpers)

install(TARGETS jal_jal LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(DIRECTORY ${CMAKE_CURRENT_SOURCE_DIR}/include/jal ${CMAKE_SOURCE_DIR}/firmware/abi/include/jal
                  ${CMAKE_SOURCE_DIR}/firmware/kernel/include/jal ${CMAKE_SOURCE_DIR}/firmware/ops/include/jal
        DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} FILES_MATCHING PATTERN "*.h" PATTERN "*.hpp")
install(FILES ${CMAKE_SOURCE_DIR}/LICENSE ${CMAKE_SOURCE_DIR}/CHANGELOG.md DESTINATION ${CMAKE_INSTALL_DOCDIR})

# lib/pkgconfig -> ../.. ; a library directory with an architecture in it is one deeper.
file(RELATIVE_PATH JAL_PC_PREFIX /prefix/${CMAKE_INSTALL_LIBDIR}/pkgconfig /prefix)
string(REGEX REPLACE "/$" "" JAL_PC_PREFIX "${JAL_PC_PREFIX}")
configure_file(${CMAKE_CURRENT_SOURCE_DIR}/cmake/jal.pc.in ${CMAKE_CURRENT_BINARY_DIR}/jal.pc @ONLY)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/jal.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)

set(JAL_SONAME libjal.so.0)
set(JAL_LIBRARY ${CMAKE_INSTALL_LIBDIR}/${JAL_SONAME})
set(JAL_COMPILER ${CMAKE_INSTALL_BINDIR}/jalcc)
configure_package_config_file(${CMAKE_CURRENT_SOURCE_DIR}/cmake/jalConfig.cmake.in ${CMAKE_CURRENT_BINARY_DIR}/jalConfig.cmake
  INSTALL_DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/jal PATH_VARS JAL_LIBRARY JAL_COMPILER CMAKE_INSTALL_INCLUDEDIR)
write_basic_package_version_file(${CMAKE_CURRENT_BINARY_DIR}/jalConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/jalConfig.cmake ${CMAKE_CURRENT_BINARY_DIR}/jalConfigVersion.cmake
        DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/jal)
