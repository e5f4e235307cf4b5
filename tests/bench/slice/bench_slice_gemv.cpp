// Matrix times vector through real launches: bytes of weights a second, as a share of the read bandwidth of the run.
//
// Weights lie in all 64 slices, 256 MiB in all, in tiles of 45 rows by 2880, as a core holds them; one launch reads
// them all. The yardstick is taken before each launch. The engines alone: bench_engines.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <random>
#include <stdexcept>
#include <thread>
#include <vector>

#include "emulator/engines/engines.hpp"
#include "runtime/tensor/weight_tile.hpp"
#include "tests/bench/machine.hpp"
#include "tests/bench/slice/kernels/loops.h"
#include "tests/bench/slice/session.hpp"

namespace {

constexpr std::uint32_t kK = 2880;
constexpr std::uint32_t kRows = 45;
constexpr std::uint64_t kBytes = std::uint64_t{256} << 20;
constexpr int kRounds = 9;

struct Kind {
  const char* name;
  std::uint32_t dtype;
  jal::emu::WeightFormat format;
  double goal_avx512;
  double goal_avx2;
};
// MXFP4 has to be expanded, which narrow vectors do at half the speed; MXFP8 has the goal of its decode.
constexpr Kind kKinds[] = {{"bf16", JAL_DTYPE_BF16, jal::emu::WeightFormat::bf16, 0.8, 0.8},
                           {"mxfp8", JAL_DTYPE_MXFP8, jal::emu::WeightFormat::mxfp8, 0.6, 0.6},
                           {"mxfp4", JAL_DTYPE_MXFP4, jal::emu::WeightFormat::mxfp4, 0.7, 0.45}};

bool is_wide() {
  return jal::emu::current_isa() == jal::emu::Isa::avx512 || jal::emu::current_isa() == jal::emu::Isa::avx512_bf16;
}

std::vector<float> random_values(std::size_t count, std::uint64_t seed) {
  std::mt19937_64 engine(seed);
  std::vector<float> values(count);
  for (float& value : values) value = static_cast<float>(engine() >> 40) * 0x1p-23f - 1;
  return values;
}

/// The launch computed the product and not something else: against double, with the rounding that FP32 sums and BF16
/// activations may have.
void check(const std::vector<float>& y, const jal::rt::WeightTile& tile, const std::vector<std::uint8_t>& bytes,
           const std::vector<float>& x, const char* name) {
  std::vector<float> row(kK);
  for (std::uint32_t r = 0; r < kRows; ++r) {
    jal::rt::unpack_row_f32(tile, r, bytes.data(), kK, row.data());
    double sum = 0, size = 0;
    for (std::uint32_t i = 0; i < kK; ++i) {
      sum += static_cast<double>(row[i]) * x[i];
      size += std::abs(static_cast<double>(row[i]) * x[i]);
    }
    if (!(std::abs(y[r] - sum) <= size * 0x1p-9))
      throw std::runtime_error(std::string("gemv_") + name + ": row " + std::to_string(r) + " is " +
                               std::to_string(y[r]) + ", expected " + std::to_string(sum));
  }
}

jal::bench::Record measure(const jal::Device& device, const jal::Kernel& kernel, const Kind& kind) {
  const jal_device_info chip = device.info();
  const jal::rt::WeightTile tile(kind.dtype, kRows, kK);
  const auto tiles = static_cast<std::uint32_t>((kBytes / chip.cores + tile.bytes - 1) / tile.bytes);
  const std::vector<float> x = random_values(kK, 1);
  const std::vector<float> values = random_values(std::size_t{kRows} * kK, 2);
  std::vector<std::uint8_t> one(tile.bytes);
  for (std::uint32_t r = 0; r < kRows; ++r) jal::rt::pack_row_f32(tile, r, &values[r * kK], kK, one.data());
  std::vector<std::uint8_t> all(tile.bytes * chip.cores);
  for (std::uint32_t core = 0; core < chip.cores; ++core)
    std::copy(one.begin(), one.end(), all.begin() + static_cast<std::ptrdiff_t>(core * tile.bytes));

  const jal::Memory weights = device.alloc(0, tile.bytes * tiles);
  const jal::Memory vectors = device.alloc(0, kK * 4 + kRows * 4);
  jal::Stream stream = device.stream();
  for (std::uint32_t i = 0; i < tiles; ++i)
    stream.copy_to_slices(chip.slice_mask, weights.info().offset + i * tile.bytes, all.data(), tile.bytes);
  stream.copy_to_device(vectors.address(0), x.data(), kK * 4);
  stream.synchronize();

  jal_gemv_stream block = {};
  block.weights_offset = weights.info().offset;
  block.x_offset = vectors.info().offset;
  block.y_offset = vectors.info().offset + kK * 4;
  block.weight_dtype = kind.dtype;
  block.rows = kRows;
  block.k = kK;
  block.tiles = tiles;
  const double payload =
      static_cast<double>(jal::emu::weight_payload_bytes(kind.format, kRows, kK)) * tiles * chip.cores;
  const unsigned threads = std::max(1u, std::min(2u, std::thread::hardware_concurrency()));
  std::vector<double> gbps, limits;
  for (int round = -1; round < kRounds; ++round) {
    limits.push_back(jal::bench::measure_read_gbps(threads, kBytes, 3));
    const auto start = std::chrono::steady_clock::now();
    stream.launch(kernel, chip.core_mask, block);
    stream.synchronize();
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    if (round >= 0) gbps.push_back(payload / seconds / 1e9);  // the first launch tells the emulator to take two threads
  }
  std::vector<float> y(kRows);
  device.copy_to_host(y.data(), vectors.address(chip.cores - 1, kK * 4), kRows * 4);
  check(y, tile, one, x, kind.name);
  return {
      .bench = "slice",
      .name = std::string("gemv_") + kind.name,
      .value = jal::bench::median(gbps),
      .unit = "GB/s",
      .lower_is_better = false,
      .n = kRounds,
      .reference = jal::bench::Reference{"read bandwidth of the same run, as many threads", jal::bench::median(limits)},
      .goal = jal::bench::Goal{">=", is_wide() ? kind.goal_avx512 : kind.goal_avx2},
      .placement = jal::bench::measure_placement()};
}

}  // namespace

int main(int argc, char** argv) {
  jal::bench::Report report(argc, argv);
  return jal::bench::with_chip([&](const jal::Device& device) {
    const jal::Module module = device.load(jal::bench::kernels_path("bench_loops.jko"));
    const jal::Kernel kernel = module.kernel("gemv_stream");
    for (const Kind& kind : kKinds) {
      if (report.wants(std::string("gemv_") + kind.name)) report.add(measure(device, kernel, kind));
    }
  });
}
