// Contract: loader.hpp.
#include "driver/loader.hpp"

#include <dlfcn.h>
#include <unistd.h>

#include <cstddef>
#include <cstdlib>
#include <filesystem>
#include <system_error>

#include "driver/base/error_frames.hpp"
#include "driver/base/log.hpp"

namespace jal::drv {
namespace {

constexpr char kLibrary[] = "libjal-emulator.so";
/// Versions asked for when the right one is missing, so that the message can say which there are.
constexpr std::uint32_t kVersionsProbed = 64;

/// Folder of the library or program that this function was linked into.
std::filesystem::path own_folder() {
  Dl_info info{};
  std::error_code ignored;
  if (dladdr(reinterpret_cast<const void*>(&load_instance_api), &info) == 0 || info.dli_fname == nullptr) return {};
  // The name of a program is what it was started as; its link in /proc is where it is.
  std::filesystem::path file = std::filesystem::canonical(info.dli_fname, ignored);
  if (file.empty()) file = std::filesystem::read_symlink("/proc/self/exe", ignored);
  return file.parent_path();
}

}  // namespace

std::vector<std::string> emulator_candidates() {
  if (const char* set = secure_getenv("JAL_EMULATOR"); set != nullptr && *set != '\0') return {set};
  const std::filesystem::path here = own_folder();
  std::vector<std::string> candidates;
  for (const char* folder : {"../lib/jal", "../libexec/jal", "jal", ".", "../lib"}) {
    candidates.push_back((here / folder / kLibrary).lexically_normal().string());
  }
  return candidates;
}

Result<const jal_instance_api*> check_instance_api(GetInstanceApi get, const std::string& where) {
  const jal_instance_api* api = get(JAL_INSTANCE_API_VERSION);
  if (api == nullptr) {
    std::uint32_t lowest = 0, highest = 0;
    for (std::uint32_t version = 1; version <= kVersionsProbed; ++version) {
      if (get(version) == nullptr) continue;
      if (lowest == 0) lowest = version;
      highest = version;
    }
    if (lowest == 0) {
      return fail(JAL_ERROR_HANDSHAKE_REFUSED,
                  "{} offers no version of the instance interface up to {}: use an "
                  "emulator and a libjal of one release",
                  where, kVersionsProbed);
    }
    const bool is_new = lowest > JAL_INSTANCE_API_VERSION;
    return fail(is_new ? JAL_ERROR_ABI_TOO_NEW : JAL_ERROR_ABI_TOO_OLD,
                "{} offers versions {}..{} of the instance interface, libjal speaks {}..{}: update {}", where, lowest,
                highest, JAL_INSTANCE_API_VERSION, JAL_INSTANCE_API_VERSION, is_new ? "libjal" : "the emulator");
  }
  if (api->version != JAL_INSTANCE_API_VERSION || api->struct_size < offsetof(jal_instance_api, reserved)) {
    return fail(JAL_ERROR_HANDSHAKE_REFUSED,
                "{}: its table says version {} and {} bytes; expected version {} and at least {} bytes", where,
                api->version, api->struct_size, JAL_INSTANCE_API_VERSION, offsetof(jal_instance_api, reserved));
  }
  return api;
}

Result<const jal_instance_api*> load_instance_api() {
  std::string tried;
  for (const std::string& path : emulator_candidates()) {
    if (access(path.c_str(), F_OK) != 0) {
      tried += "\n    " + path + ": not there";
      continue;
    }
    void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) {
      const char* words = dlerror();
      tried += "\n    " + (words != nullptr ? std::string(words) : path);
      continue;
    }
    void* symbol = dlsym(library, JAL_INSTANCE_SYMBOL);
    if (symbol == nullptr) {
      tried += "\n    " + path + ": has no symbol " JAL_INSTANCE_SYMBOL;
      dlclose(library);
      continue;
    }
    log(LogLevel::info, "instance library: {}", path);
    return check_instance_api(reinterpret_cast<GetInstanceApi>(symbol), path);
  }
  return fail(JAL_ERROR_NO_INSTANCE,
              "no emulator was found; install it or set JAL_EMULATOR to libjal-emulator.so. "
              "Looked at:{}",
              tried);
}

}  // namespace jal::drv
