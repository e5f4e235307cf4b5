// A chip's cores without firmware: kernels are functions of the test, launched on a cluster with HBM of its own.
#pragma once
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <jal/abi/status.h>

#include <cstring>
#include <jal/kernel/core.hpp>
#include <string>
#include <vector>

#include "emulator/cores/cluster.hpp"
#include "emulator/hbm/host_budget.hpp"

namespace jal::emu::test {

inline constexpr std::uint32_t kClient = 1;

/// Everything a cluster needs, for a model by name.
struct Chip {
  explicit Chip(const std::string& name, std::uint32_t workers = 1, std::uint32_t sanitize = 0,
                std::uint64_t deadline_ns = 20'000'000'000ull)
      : pool(workers) {
    std::string error;
    if (!load_model(name, &model, &error)) ADD_FAILURE() << error;
    hbm = std::make_unique<Hbm>(model.cores, model.slice_bytes, budget);
    cluster =
        std::make_unique<CoreCluster>(model, *hbm, pool, trace, text, CoreCluster::Options{sanitize, deadline_ns});
  }
  std::uint64_t all() const { return model.cores == 64 ? ~0ull : (1ull << model.cores) - 1; }
  /// Pages at `first` on every slice of the mask; zeroed.
  void map(std::uint64_t mask, std::uint32_t first_page, std::uint64_t bytes) {
    std::uint32_t extent = 0;
    std::string error;
    const auto pages = static_cast<std::uint32_t>((bytes + JAL_PAGE_BYTES - 1) / JAL_PAGE_BYTES);
    EXPECT_EQ(hbm->map(mask, first_page, pages, (bytes + 63) / 64 * 64, kClient, &extent, &error), JAL_OK) << error;
  }
  template <typename T>
  T* at(std::uint32_t slice, std::uint64_t offset) {
    return reinterpret_cast<T*>(hbm->resolve(kClient, JAL_ADDRESS_HBM(slice, offset)).data);
  }
  /// Runs on the mask's cores with an argument block.
  hal::CoreJobResult run(jal_kernel_function function, std::uint64_t mask, const void* arguments = nullptr,
                         std::uint32_t bytes = 0) {
    hal::CoreJob job;
    job.core_mask = mask;
    job.arguments = arguments;
    job.argument_bytes = bytes;
    job.client = kClient;
    job.start_ps = 1000;
    hal::CoreJobResult result;
    cluster->run_function(function, job, result);
    return result;
  }

  Model model;
  HostBudget budget{4ull << 30};
  WorkerPool pool;
  TraceTap trace{0};
  TextPort text;
  std::unique_ptr<Hbm> hbm;
  std::unique_ptr<CoreCluster> cluster;
};

inline kernel::Core& core_of(jal_core* raw) { return *static_cast<kernel::Core*>(raw); }

}  // namespace jal::emu::test
