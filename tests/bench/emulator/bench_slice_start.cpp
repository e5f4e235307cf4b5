// What starting an instance costs a process: time and memory for eight chips of the full model, and for one.
//
// Each sample is a fresh process (this program again, with --child N): a second start in the same process would find
// files, pages and the heap warm. Time covers dlopen, open and the handshake's absence; memory is the growth of the
// resident set.
#include <dlfcn.h>
#include <jal/abi/instance.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "tests/bench/report.hpp"

namespace {

long resident_kib() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.rfind("VmRSS:", 0) == 0) return std::stol(line.substr(6));
  }
  return 0;
}

std::string own_path() { return std::filesystem::read_symlink("/proc/self/exe").string(); }

int child(unsigned devices) {
  const std::string library = std::filesystem::path(own_path()).parent_path() / "../lib/libjal-emulator.so";
  const long before_kib = resident_kib();
  const auto start = std::chrono::steady_clock::now();
  void* handle = dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) {
    std::fprintf(stderr, "%s\n", dlerror());
    return 2;
  }
  const auto get = reinterpret_cast<const jal_instance_api* (*)(std::uint32_t)>(dlsym(handle, JAL_INSTANCE_SYMBOL));
  const jal_instance_api* api = get(JAL_INSTANCE_API_VERSION);
  jal_instance_options options = {};
  options.struct_size = sizeof options;
  options.device_count = devices;
  options.model = "jal1-a0";
  jal_instance* instance = nullptr;
  char error[512] = "";
  if (api->open(&options, &instance, error, sizeof error) != JAL_OK) {
    std::fprintf(stderr, "%s\n", error);
    return 2;
  }
  const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - start;
  const long growth_kib = resident_kib() - before_kib;
  api->close(instance);
  std::printf("%.6f %ld\n", took.count(), growth_kib);
  return 0;
}

struct Sample {
  std::vector<double> ms, mib;
};

bool measure(unsigned devices, int rounds, Sample* out) {
  for (int round = 0; round < rounds; ++round) {
    FILE* pipe = popen((own_path() + " --child " + std::to_string(devices)).c_str(), "r");
    char line[64] = "";
    const bool good = pipe != nullptr && std::fgets(line, sizeof line, pipe) != nullptr;
    char* rest = line;
    const double ms = std::strtod(line, &rest);
    const long kib = std::strtol(rest, nullptr, 10);
    if (pipe == nullptr || pclose(pipe) != 0 || !good) return false;
    out->ms.push_back(ms);
    out->mib.push_back(static_cast<double>(kib) / 1024);
  }
  return true;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc == 3 && std::strcmp(argv[1], "--child") == 0)
    return child(static_cast<unsigned>(std::strtoul(argv[2], nullptr, 10)));
  jal::bench::Report report(argc, argv);
  constexpr int kRounds = 21;
  char directory[] = "/tmp/jal-bench-XXXXXX";
  setenv("JAL_RUNTIME_DIR", mkdtemp(directory), 1);
  int status = 0;
  for (const unsigned devices : {8u, 1u}) {
    const std::string suffix = devices == 8 ? "" : "_1_device";
    if (!report.wants("start_ms" + suffix) && !report.wants("start_rss" + suffix)) continue;
    Sample sample;
    if (!measure(devices, kRounds, &sample)) {
      status = 2;
      continue;
    }
    jal::bench::Record record;
    record.bench = "slice";
    record.n = kRounds;
    record.name = "start_ms" + suffix;
    record.value = jal::bench::median(sample.ms);
    record.unit = "ms";
    record.goal = {"<=", 50};
    report.add(record);
    record.name = "start_rss" + suffix;
    record.value = jal::bench::median(sample.mib);
    record.unit = "MiB";
    record.goal = {"<=", 8};
    report.add(record);
  }
  std::filesystem::remove_all(directory);
  return status;
}
