// What every slice benchmark starts with: a chip of its own in a rendezvous directory of its own, and its kernels.
//
// Not for tests. Invariant: the directory goes with the object. Used from one thread.
#pragma once

#include <stdlib.h>

#include <exception>
#include <filesystem>
#include <functional>
#include <iostream>
#include <jal/jal.hpp>
#include <string>

#include "tests/bench/report.hpp"

namespace jal::bench {

/// Where the build puts the benchmarks' kernels, seen from this program.
inline std::string kernels_path(const std::string& name) {
  const std::filesystem::path bin = std::filesystem::read_symlink("/proc/self/exe").parent_path();
  return (bin / "../tests/kernels" / name).string();
}

/// Opens one chip of the full model for `work`. The program's exit status.
inline int with_chip(const std::function<void(const jal::Device&)>& work) {
  char directory[] = "/tmp/jal-bench-XXXXXX";
  setenv("JAL_RUNTIME_DIR", mkdtemp(directory), 1);
  int status = 2;
  try {
    jal_init_options options{};
    options.model = "jal1-a0";
    const jal::Library library(options);
    const jal::Device device;
    work(device);
    status = 0;
  } catch (const std::exception& error) {
    std::cerr << error.what() << '\n';
  }
  std::filesystem::remove_all(directory);
  return status;
}

}  // namespace jal::bench
