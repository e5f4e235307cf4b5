// First steps in C++: the same as hello.c. Objects free themselves; a failed call throws jal::Error.
// Run: hello_cpp [axpy.jko]
#include <cstdio>
#include <jal/jal.hpp>
#include <numeric>
#include <vector>

int main(int argc, char** argv) try {
  const jal::Library library;
  const jal::Device device;
  const jal_device_info info = device.info();
  std::printf("%s: %u cores, %u HBM slices\n", info.model, info.cores, info.slices);

  // 1000 floats, dealt out over all slices; a tensor owns the memory that its descriptor describes.
  const auto shape = jal::TensorInfo(JAL_DTYPE_F32, {1000}).shard(0, info.slice_mask);
  jal::Tensor x = device.tensor(shape), y = device.tensor(shape);
  std::vector<float> values(1000);
  std::iota(values.begin(), values.end(), 0.0f);
  x.upload(values);
  y.upload(values);

  const jal::Module module = device.load(argc > 1 ? argv[1] : "axpy.jko");
  const jal::Kernel axpy = module.kernel("axpy");
  jal::Stream stream = device.stream();
  const jal::Event before = device.event(), after = device.event();
  stream.record(before);
  stream.launch(axpy, info.core_mask, x, y, 2.0f);
  stream.record(after);
  stream.synchronize();
  std::printf("axpy took %.3f us on the chip's %s clock\n", static_cast<double>(jal::elapsed_ps(before, after)) / 1e6,
              jal_clock_kind_name(info.clock_kind));

  y.download(JAL_DTYPE_F32, values.data());
  int wrong = 0;
  for (int i = 0; i < 1000; ++i) wrong += values[i] != 3.0f * static_cast<float>(i);
  std::printf("y[1] = %g, y[999] = %g, %d wrong\n", values[1], values[999], wrong);
  return wrong != 0;
} catch (const jal::Error& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
