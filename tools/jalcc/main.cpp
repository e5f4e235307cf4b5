// jalcc: compiles kernels (C++20 with the kernel SDK) to a .jko module.
//
// What it is not: a compiler; it runs the host's g++ with the SDK's flags and headers and packs the result. Exit codes:
// 0 done, 1 refused (the message or the compiler says why), 2 usage.
#include <fcntl.h>
#include <spdlog/fmt/fmt.h>
#include <sys/wait.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "tools/jalcc/elf.hpp"
#include "tools/jalcc/jko.hpp"

namespace {

namespace fs = std::filesystem;
using jal::cc::Failure;

std::vector<std::uint8_t> read_file(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) throw Failure(fmt::format("{}: {}", path.string(), std::strerror(errno)));
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

/// Written beside and renamed, so that nobody ever loads half a module.
void write_file(const fs::path& path, const std::vector<std::uint8_t>& bytes) {
  const fs::path temporary = path.string() + fmt::format(".{}.tmp", getpid());
  std::ofstream out(temporary, std::ios::binary);
  out.write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
  out.close();
  std::error_code error;
  if (out) fs::rename(temporary, path, error);
  if (!out || error) {
    fs::remove(temporary, error);
    throw Failure(fmt::format("{}: cannot be written: {}", path.string(), std::strerror(errno)));
  }
}

/// Headers of the SDK: beside this program in an installed prefix and in the build tree alike.
fs::path include_directory() {
  const fs::path self = fs::read_symlink("/proc/self/exe");
  const fs::path dir = self.parent_path().parent_path() / "include";
  if (!fs::exists(dir / "jal/kernel/core.hpp")) {
    throw Failure(
        fmt::format("the kernel SDK's headers are not at {}; install jalcc with the SDK, or pass -I", dir.string()));
  }
  return dir;
}

int run(const std::vector<std::string>& words) {
  std::vector<char*> argv;
  for (const std::string& word : words) argv.push_back(const_cast<char*>(word.c_str()));
  argv.push_back(nullptr);
  const pid_t child = fork();
  if (child < 0) throw Failure(fmt::format("fork: {}", std::strerror(errno)));
  if (child == 0) {
    execvp(argv[0], argv.data());
    std::fprintf(stderr, "jalcc: %s: %s; install g++ or set CXX\n", argv[0], std::strerror(errno));
    _exit(127);
  }
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128;
}

/// A directory that goes away with its scope.
class ScratchDirectory {
 public:
  ScratchDirectory() {
    std::string pattern = (fs::temp_directory_path() / "jalcc-XXXXXX").string();
    if (mkdtemp(pattern.data()) == nullptr) throw Failure(fmt::format("{}: {}", pattern, std::strerror(errno)));
    path_ = pattern;
  }
  ~ScratchDirectory() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  ScratchDirectory(const ScratchDirectory&) = delete;
  ScratchDirectory& operator=(const ScratchDirectory&) = delete;
  const fs::path& path() const { return path_; }

 private:
  fs::path path_;
};

struct Options {
  std::vector<std::string> sources;
  std::vector<std::string> includes;
  std::vector<std::string> defines;
  std::string output;
  std::string optimise = "2";
  std::string dependencies;
  bool debug = false;
  bool verbose = false;
  bool list = false;
  bool verify = false;
};

void compile(const Options& options) {
  const char* cxx = std::getenv("CXX");
  const ScratchDirectory scratch;
  const fs::path native = scratch.path() / "kernels.so";
  // Equal bits need every fused multiply-add written, hence no contraction. No standard library is linked: a kernel
  // runs on a core, not in a process. memcpy and its kin come from the emulator's process.
  std::vector<std::string> words = {cxx != nullptr && *cxx != '\0' ? cxx : "g++",
                                    "-std=c++20",
                                    "-shared",
                                    "-fPIC",
                                    "-nostdlib",
                                    "-fvisibility=hidden",
                                    "-fno-exceptions",
                                    "-fno-rtti",
                                    "-fno-threadsafe-statics",
                                    "-fno-stack-protector",
                                    "-ffp-contract=off",
                                    "-Wall",
                                    "-Wextra",
                                    "-Wl,--build-id=sha1",
                                    "-O" + options.optimise};
  if (options.debug) words.push_back("-g");
  for (const std::string& define : options.defines) words.push_back("-D" + define);
  for (const std::string& dir : options.includes) words.push_back("-I" + dir);
  words.push_back("-I" + include_directory().string());
  if (!options.dependencies.empty()) {
    words.insert(words.end(), {"-MMD", "-MF", options.dependencies, "-MT", options.output});
  }
  words.insert(words.end(), options.sources.begin(), options.sources.end());
  words.insert(words.end(), {"-o", native.string()});
  if (options.verbose) std::fprintf(stderr, "%s\n", fmt::format("{}", fmt::join(words, " ")).c_str());
  if (run(words) != 0) throw Failure("the compiler refused the kernels; its messages are above");
  write_file(options.output, jal::cc::make_module(read_file(native)));
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  CLI::App app{"Compiles kernels written with the Jalapeño kernel SDK to a .jko module."};
  app.set_version_flag("--version", std::string("jalcc ") + JAL_PROJECT_VERSION);
  app.add_option("sources", options.sources, "kernel sources (C++20), or one .jko with --list or --verify")->required();
  app.add_option("-o,--output", options.output, "the module; default: the first source's name with .jko");
  app.add_option("-I", options.includes, "directory to search for headers")->allow_extra_args(false);
  app.add_option("-D", options.defines, "macro NAME or NAME=VALUE")->allow_extra_args(false);
  app.add_option("-O", options.optimise, "optimisation level of the compiler")
      ->capture_default_str()
      ->check(CLI::IsMember({"0", "1", "2", "3", "s", "g"}));
  app.add_option("--depfile", options.dependencies, "write a make-style list of the headers used, for build systems");
  app.add_flag("-g", options.debug, "keep debug information for gdb");
  app.add_flag("-v,--verbose", options.verbose, "print the compiler's command");
  CLI::Option* list = app.add_flag("--list", options.list, "print a module's kernels with their signatures");
  app.add_flag("--verify", options.verify, "only check a module; exit 1 and say why if a device would refuse it")
      ->excludes(list);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  try {
    if (options.list || options.verify) {
      for (const std::string& path : options.sources) {
        const std::vector<std::uint8_t> module = read_file(path);
        std::string text;
        try {
          text = jal::cc::describe_module(module);
        } catch (const std::exception& error) {
          throw Failure(path + ": " + error.what());
        }
        if (options.list) std::fputs(text.c_str(), stdout);
      }
      return 0;
    }
    if (options.output.empty())
      options.output = fs::path(options.sources.front()).filename().replace_extension(".jko").string();
    compile(options);
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "jalcc: %s\n", error.what());
    return 1;
  }
}
