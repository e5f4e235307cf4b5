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
#include <sstream>
#include <string>
#include <system_error>
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
  // The reason, before the clean-up below sets errno anew.
  std::error_code error;
  if (!out)
    error.assign(errno, std::generic_category());
  else
    fs::rename(temporary, path, error);
  if (!error) return;
  std::error_code ignored;
  fs::remove(temporary, ignored);
  throw Failure(fmt::format("{}: cannot be written: {}", path.string(), error.message()));
}

/// Headers of the SDK, in the first directory that has them: those of -I, or the one beside this program, in an
/// installed prefix and in the build tree alike.
fs::path include_directory(const std::vector<std::string>& given) {
  const fs::path beside = fs::read_symlink("/proc/self/exe").parent_path().parent_path() / "include";
  std::vector<fs::path> directories(given.begin(), given.end());
  directories.push_back(beside);
  std::error_code ignored;
  for (const fs::path& dir : directories) {
    if (fs::exists(dir / "jal/kernel/core.hpp", ignored)) return dir;
  }
  throw Failure(
      fmt::format("the kernel SDK's headers are not at {}; install jalcc with the SDK, or name with -I the directory "
                  "that has jal/kernel/core.hpp",
                  beside.string()));
}

/// The compiler and the words that go before the flags. CXX may hold several, as for make: "ccache g++".
std::vector<std::string> compiler() {
  const char* cxx = std::getenv("CXX");
  std::istringstream in(cxx != nullptr ? cxx : "");
  std::vector<std::string> words(std::istream_iterator<std::string>(in), {});
  if (words.empty()) words.push_back("g++");
  return words;
}

int run(const std::vector<std::string>& words) {
  std::vector<char*> argv;
  argv.reserve(words.size() + 1);
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

/// Runs the compiler with some words.
void run_compiler(const Options& options, const std::vector<std::string>& arguments) {
  std::vector<std::string> words = compiler();
  words.insert(words.end(), arguments.begin(), arguments.end());
  if (options.verbose) std::fprintf(stderr, "%s\n", fmt::format("{}", fmt::join(words, " ")).c_str());
  if (run(words) != 0) throw Failure("the compiler refused the kernels; its messages are above");
}

void compile(const Options& options) {
  const ScratchDirectory scratch;
  // Equal bits need every fused multiply-add written, hence no contraction. No standard library is linked: a kernel
  // runs on a core, not in a process. memcpy and its kin come from the emulator's process.
  std::vector<std::string> flags = {"-c",
                                    "-std=c++20",
                                    "-fPIC",
                                    "-fvisibility=hidden",
                                    "-fno-exceptions",
                                    "-fno-rtti",
                                    "-fno-threadsafe-statics",
                                    "-fno-stack-protector",
                                    "-ffp-contract=off",
                                    "-Wall",
                                    "-Wextra",
                                    "-O" + options.optimise};
  if (options.debug) flags.push_back("-g");
  for (const std::string& define : options.defines) flags.push_back("-D" + define);
  for (const std::string& dir : options.includes) flags.push_back("-I" + dir);
  flags.push_back("-I" + include_directory(options.includes).string());
  // One run for each source: a single one would keep the headers of the last source only, and no cache takes it.
  std::vector<std::string> objects;
  std::vector<std::uint8_t> rules;
  for (std::size_t i = 0; i < options.sources.size(); ++i) {
    const fs::path object = scratch.path() / fmt::format("{}.o", i), rule = scratch.path() / fmt::format("{}.d", i);
    std::vector<std::string> words = flags;
    if (!options.dependencies.empty()) words.insert(words.end(), {"-MMD", "-MF", rule.string(), "-MT", options.output});
    words.insert(words.end(), {options.sources[i], "-o", object.string()});
    run_compiler(options, words);
    objects.push_back(object.string());
    if (options.dependencies.empty()) continue;
    const std::vector<std::uint8_t> text = read_file(rule);
    rules.insert(rules.end(), text.begin(), text.end());
  }
  const fs::path native = scratch.path() / "kernels.so";
  std::vector<std::string> link = {"-shared", "-nostdlib", "-Wl,--build-id=sha1", "-o", native.string()};
  link.insert(link.end(), objects.begin(), objects.end());
  run_compiler(options, link);
  const std::vector<std::uint8_t> module = jal::cc::make_module(read_file(native));
  // The rule first: a module without it would never be made again when a header changes.
  if (!options.dependencies.empty()) write_file(options.dependencies, rules);
  write_file(options.output, module);
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
