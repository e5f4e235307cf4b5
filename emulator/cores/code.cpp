// Loading native code. See code.hpp.
#include "emulator/cores/code.hpp"

#include <dlfcn.h>
#include <jal/abi/status.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <utility>

namespace jal::emu {
namespace {

template <typename... A>
std::int32_t refuse(hal::FaultReport& fault, std::int32_t status, const char* format, A... values) {
  fault.status = status;
  std::snprintf(fault.text, sizeof fault.text, format, values...);
  return status;
}

}  // namespace

CodeTable::Library::~Library() {
  if (handle != nullptr) dlclose(handle);
  if (fd >= 0) close(fd);
}

std::int32_t CodeTable::load(const void* module, std::uint64_t bytes, std::uint32_t* out_code,
                             hal::FaultReport& fault) {
  const auto* file = static_cast<const std::uint8_t*>(module);
  jal_module_header header;
  std::memcpy(&header, file, sizeof header);
  if (header.kernel_core_version != JAL_CORE_VERSION) {
    return refuse(fault, JAL_ERROR_MODULE_ARCH,
                  "built with kernel SDK version %u, this chip runs %u; build it again with jalcc",
                  header.kernel_core_version, JAL_CORE_VERSION);
  }
  const jal_module_section* native = nullptr;
  for (const jal_module_section& section : header.sections) {
    if (section.arch == JAL_ARCH_NATIVE_X86_64) native = &section;
  }
  if (native == nullptr || native->offset + native->bytes > bytes)
    return refuse(fault, JAL_ERROR_MODULE_ARCH, "the module has no native section%s", "");

  std::vector<std::uint8_t> image(file + native->offset, file + native->offset + native->bytes);
  const std::uint8_t* table = file + header.kernel_offset;
  image.insert(image.end(), table, table + header.kernel_count * sizeof(jal_kernel_entry));
  std::shared_ptr<Library> library;
  for (const std::shared_ptr<Library>& loaded : codes_) {
    if (loaded != nullptr && loaded->image == image) library = loaded;
  }
  if (library == nullptr) {
    library = std::make_shared<Library>();
    library->image = std::move(image);
    library->fd = memfd_create("jal-kernels", MFD_CLOEXEC);
    if (library->fd < 0) return refuse(fault, JAL_ERROR_MODULE_LOAD, "memfd_create: %s", std::strerror(errno));
    for (std::uint64_t done = 0; done < native->bytes;) {
      const ssize_t wrote = write(library->fd, file + native->offset + done, native->bytes - done);
      if (wrote <= 0) {
        return refuse(fault, JAL_ERROR_MODULE_LOAD, "writing %llu bytes of code: %s",
                      static_cast<unsigned long long>(native->bytes), std::strerror(errno));
      }
      done += static_cast<std::uint64_t>(wrote);
    }
    // The loader knows a library by its name, so the descriptor stays open while the code is loaded: its number must
    // not become another's.
    char path[64];
    std::snprintf(path, sizeof path, "/proc/self/fd/%d", library->fd);
    library->handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (library->handle == nullptr) return refuse(fault, JAL_ERROR_MODULE_LOAD, "%s", dlerror());
    for (std::uint32_t i = 0; i < header.kernel_count; ++i) {
      jal_kernel_entry entry;
      std::memcpy(&entry, file + header.kernel_offset + i * sizeof entry, sizeof entry);
      void* symbol = dlsym(library->handle, entry.symbol);
      if (symbol == nullptr) {
        return refuse(fault, JAL_ERROR_MODULE_LOAD, "kernel %s: symbol %s is missing", entry.name, entry.symbol);
      }
      library->kernels.push_back(reinterpret_cast<jal_kernel_function>(symbol));
    }
  }
  std::uint32_t code = 0;
  while (code < codes_.size() && codes_[code] != nullptr) ++code;
  if (code == codes_.size()) codes_.emplace_back();
  codes_[code] = std::move(library);
  *out_code = code + 1;
  return JAL_OK;
}

void CodeTable::unload(std::uint32_t code) {
  if (code == 0 || code > codes_.size() || codes_[code - 1] == nullptr) return;
  codes_[code - 1].reset();
}

jal_kernel_function CodeTable::find(std::uint32_t code, std::uint32_t kernel) const {
  if (code == 0 || code > codes_.size() || codes_[code - 1] == nullptr || kernel >= codes_[code - 1]->kernels.size())
    return nullptr;
  return codes_[code - 1]->kernels[kernel];
}

}  // namespace jal::emu
