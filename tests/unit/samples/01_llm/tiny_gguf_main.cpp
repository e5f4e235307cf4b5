// The tiny model as a program, for tests in other languages: writes a file, or prints what the reader makes of one.
//
//   tiny_gguf write PATH [MATRIX_TYPE [SEED]]   a whole model; the type of its matrices by name, for example Q4_0
//   tiny_gguf rows PATH TENSOR                  the tensor as the reader decodes it, FP32 on stdout
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <fstream>
#include <stdexcept>

#include "tests/unit/samples/01_llm/tiny_gguf.hpp"

namespace {

using namespace jal::llm;

GgufTensorType type_of(const std::string& name) {
  for (const GgufTensorType type :
       {GgufTensorType::f32, GgufTensorType::f16, GgufTensorType::bf16, GgufTensorType::q4_0, GgufTensorType::q4_1,
        GgufTensorType::q8_0, GgufTensorType::mxfp4}) {
    if (name == name_of(type)) return type;
  }
  throw std::runtime_error("no tensor type '" + name + "'");
}

void write_model(const std::string& path, const std::string& type, const std::string& seed) {
  test::TinyModel options;
  options.matrices = type_of(type);
  options.seed = std::stoull(seed);
  const std::string bytes = test::tiny_model(options).bytes();
  std::ofstream out(path, std::ios::binary);
  if (!out.write(bytes.data(), static_cast<std::streamsize>(bytes.size())).flush())
    throw std::runtime_error("cannot write " + path);
  std::fprintf(stderr, "%s: %zu bytes, matrices %s, seed %s\n", path.c_str(), bytes.size(), type.c_str(), seed.c_str());
}

void print_rows(const std::string& path, const std::string& name) {
  const GgufFile file = GgufFile::open(path);
  const GgufTensor* tensor = file.find_tensor(name);
  if (tensor == nullptr) throw std::runtime_error(path + " has no tensor " + name);
  std::vector<float> row(tensor->row_elements());
  for (std::uint64_t r = 0; r < tensor->rows(); ++r) {
    dequantize_row(*tensor, r, row);
    if (std::fwrite(row.data(), sizeof(float), row.size(), stdout) != row.size())
      throw std::runtime_error("cannot write");
  }
}

}  // namespace

int main(int argc, char** argv) try {
  const std::string what = argc > 1 ? argv[1] : "";
  if (what == "write" && argc >= 3 && argc <= 5) {
    write_model(argv[2], argc > 3 ? argv[3] : "Q4_1", argc > 4 ? argv[4] : "1");
  } else if (what == "rows" && argc == 4) {
    print_rows(argv[2], argv[3]);
  } else {
    std::fprintf(stderr, "usage: tiny_gguf write PATH [MATRIX_TYPE [SEED]] | tiny_gguf rows PATH TENSOR\n");
    return 2;
  }
  return 0;
} catch (const std::exception& error) {
  std::fprintf(stderr, "tiny_gguf: %s\n", error.what());
  return 1;
}
