// A kernel gives the same bits at every optimisation level of jalcc, and they are those of the sums as written.
#include <cmath>
#include <jal/jal.hpp>

#include "tests/unit/libjal/library_fixture.hpp"

namespace jal::test {
namespace {

class Levels : public LibraryTest {
 protected:
  /// The kernel's results on `in`, from the module compiled at a level.
  std::vector<float> run(const std::string& level, const std::vector<float>& in) {
    const auto count = static_cast<std::uint32_t>(in.size());
    std::vector<float> out(in.size() + 3);
    const std::uint64_t x = info_of(alloc(1, count * sizeof(float))).address;
    const std::uint64_t y = info_of(alloc(1, out.size() * sizeof(float))).address;
    jal_module_t module = nullptr;
    jal_kernel_t kernel = nullptr;
    JAL_EXPECT_OK(jal_module_load(device_, (JAL_ARITHMETIC + level + ".jko").c_str(), &module));
    JAL_EXPECT_OK(jal_module_kernel(module, "arithmetic", &kernel));
    JAL_EXPECT_OK(jal_copy_to_device_blocking(device_, x, in.data(), count * sizeof(float), soon()));
    const jal_argument arguments[] = {argument(Address{x}), argument(Address{y}), argument(count)};
    jal_stream_t made = stream();
    JAL_EXPECT_OK(jal_launch(made, kernel, 1, arguments, 3, nullptr));
    JAL_EXPECT_OK(jal_stream_synchronize(made, soon()));
    JAL_EXPECT_OK(jal_copy_to_host_blocking(device_, out.data(), y, out.size() * sizeof(float), soon()));
    return out;
  }
};

std::vector<std::uint32_t> bits(const std::vector<float>& values) {
  std::vector<std::uint32_t> bits(values.size());
  std::memcpy(bits.data(), values.data(), values.size() * sizeof(float));
  return bits;
}

TEST_F(Levels, GiveTheSameBits) {
  if (!__builtin_cpu_supports("fma")) GTEST_SKIP() << "the kernel is compiled for a processor with FMA";
  std::vector<float> in(400);
  for (std::size_t i = 0; i < in.size(); ++i) in[i] = std::sin(static_cast<float>(i)) * 3;
  // This test is compiled without contraction, for a processor whose scalar arithmetic rounds each step.
  std::vector<float> expected;
  float sum = 0, reciprocals = 0, ratios = 0;
  std::size_t fused_differs = 0;
  for (const float x : in) {
    const float p = ((0.3f * x + 0.7f) * x - 1.1f) * x + 0.1f;
    expected.push_back(p);
    fused_differs += std::fma(std::fma(std::fma(0.3f, x, 0.7f), x, -1.1f), x, 0.1f) != p;
    sum += p;
    reciprocals += 1 / p;
    ratios += p / 3 * x - x;
  }
  expected.insert(expected.end(), {sum, reciprocals, ratios});
  ASSERT_GT(fused_differs, 50u) << "the inputs would not show a fused multiply-add";
  for (const char* level : {"0", "1", "2", "3", "s", "g"}) {
    EXPECT_EQ(bits(run(level, in)), bits(expected)) << "-O " << level;
  }
}

}  // namespace
}  // namespace jal::test
