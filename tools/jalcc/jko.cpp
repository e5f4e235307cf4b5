// .jko writer and reader. See jko.hpp.
#define XXH_INLINE_ALL
#include "tools/jalcc/jko.hpp"

#include <jal/abi/packet.h>
#include <jal/abi/tensor.h>
#include <jal/kernel/core_abi.h>
#include <spdlog/fmt/fmt.h>
#include <spdlog/fmt/ranges.h>
#include <xxhash.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <iterator>
#include <set>

#include "tools/jalcc/elf.hpp"

namespace jal::cc {
namespace {

// The compiler calls these for plain copies and fills; the emulator's process has them.
constexpr std::array<const char*, 4> kAllowed = {"memcmp", "memcpy", "memmove", "memset"};

/// A table entry as the firmware demands it: what a device would refuse is refused here, with the kernel's name.
void check_entry(const jal_kernel_entry& kernel) {
  const auto is_text = [](const char(&text)[JAL_KERNEL_NAME_BYTES]) {
    return text[0] != '\0' && std::memchr(text, '\0', sizeof text) != nullptr;
  };
  if (!is_text(kernel.name) || !is_text(kernel.symbol))
    throw Failure("a kernel's name or symbol is empty or not terminated");
  if (kernel.argument_bytes > JAL_ARGUMENT_BYTES_MAX)
    throw Failure(fmt::format("kernel '{}' takes {} bytes of arguments; at most {} fit a launch", kernel.name,
                              kernel.argument_bytes, JAL_ARGUMENT_BYTES_MAX));
  if (kernel.argument_count > JAL_KERNEL_ARGUMENTS_MAX)
    throw Failure(fmt::format("kernel '{}' has {} arguments; at most {} fit its table entry", kernel.name,
                              kernel.argument_count, JAL_KERNEL_ARGUMENTS_MAX));
  if (std::any_of(std::begin(kernel.reserved), std::end(kernel.reserved), [](std::uint32_t word) { return word != 0; }))
    throw Failure(fmt::format("kernel '{}': a reserved field is set", kernel.name));
  std::uint32_t end = 0;
  for (std::uint32_t i = 0; i < kernel.argument_count; ++i) {
    const jal_kernel_argument& a = kernel.arguments[i];
    const std::uint32_t fixed = jal_argument_type_bytes(a.type);
    const std::uint32_t align = fixed == 0 ? 1 : std::min(fixed, 8u);
    if (a.type < JAL_ARGUMENT_U32 || a.type > JAL_ARGUMENT_BYTES || a.bytes == 0 || (fixed != 0 && a.bytes != fixed) ||
        a.offset % align != 0 || a.offset < end || a.bytes > kernel.argument_bytes ||
        a.offset > kernel.argument_bytes - a.bytes)
      throw Failure(fmt::format("kernel '{}': argument {} {{type {}, offset {}, bytes {}}} is not legal", kernel.name,
                                i, a.type, a.offset, a.bytes));
    end = a.offset + a.bytes;
  }
}

std::vector<jal_kernel_entry> kernels_of(const ElfFile& elf) {
  const std::span<const std::uint8_t> table = elf.section("jal_kernels");
  if (table.empty() || table.size() % sizeof(jal_kernel_entry) != 0) {
    throw Failure("the sources define no kernel; define one with JAL_KERNEL(name, jal::kernel::Core& core, ...)");
  }
  std::vector<jal_kernel_entry> kernels(table.size() / sizeof(jal_kernel_entry));
  std::memcpy(kernels.data(), table.data(), table.size());
  if (kernels.size() > JAL_MODULE_KERNELS_MAX) {
    throw Failure(fmt::format("{} kernels: a module holds at most {}", kernels.size(), JAL_MODULE_KERNELS_MAX));
  }
  for (const jal_kernel_entry& kernel : kernels) check_entry(kernel);
  std::sort(kernels.begin(), kernels.end(),
            [](const jal_kernel_entry& a, const jal_kernel_entry& b) { return std::strcmp(a.name, b.name) < 0; });
  std::set<std::string> names;
  for (const jal_kernel_entry& kernel : kernels) {
    if (!names.insert(kernel.name).second) throw Failure(fmt::format("kernel '{}' is defined twice", kernel.name));
    if (!elf.defines(kernel.symbol))
      throw Failure(fmt::format("kernel '{}': its symbol {} is not exported; its name may be longer than {} characters",
                                kernel.name, kernel.symbol, JAL_KERNEL_NAME_BYTES - 12));
  }
  return kernels;
}

void refuse_undefined(const ElfFile& elf) {
  std::vector<std::string> missing = elf.undefined();
  std::erase_if(missing, [](const std::string& name) {
    return std::find(kAllowed.begin(), kAllowed.end(), name) != kAllowed.end();
  });
  if (missing.empty()) return;
  throw Failure(fmt::format("undefined symbols: {}; kernels may use only the kernel SDK and freestanding headers",
                            fmt::join(missing, ", ")));
}

const char* argument_text(std::uint16_t type) {
  constexpr const char* kNames[] = {"?", "u32", "i32", "f32", "u64", "i64", "f64", "tensor", "address", "struct"};
  return type < std::size(kNames) ? kNames[type] : "?";
}

}  // namespace

std::uint64_t module_checksum(std::span<const std::uint8_t> module) {
  constexpr std::size_t kAt = offsetof(jal_module_header, checksum);
  std::uint64_t hash = 0xcbf29ce484222325ull;
  for (std::size_t i = 0; i < module.size(); ++i) {
    const std::uint8_t byte = i >= kAt && i < kAt + 8 ? 0 : module[i];
    hash = (hash ^ byte) * 0x100000001b3ull;
  }
  return hash;
}

std::vector<std::uint8_t> make_module(std::span<const std::uint8_t> native) {
  const ElfFile elf(native);
  const std::vector<jal_kernel_entry> kernels = kernels_of(elf);
  refuse_undefined(elf);
  jal_module_header header = {};
  header.magic = JAL_MODULE_MAGIC;
  header.version = JAL_MODULE_VERSION;
  header.kernel_count = static_cast<std::uint32_t>(kernels.size());
  header.kernel_core_version = JAL_CORE_VERSION;
  header.kernel_offset = sizeof header;
  const std::uint64_t table_end = header.kernel_offset + kernels.size() * sizeof(jal_kernel_entry);
  header.sections[0] = {JAL_ARCH_NATIVE_X86_64, 0, (table_end + 63) / 64 * 64, native.size()};
  header.file_bytes = header.sections[0].offset + native.size();
  for (std::uint64_t half = 0; half < 2; ++half) {
    const XXH128_hash_t hash = XXH3_128bits_withSeed(native.data(), native.size(), half);
    std::memcpy(header.build_id + 16 * half, &hash, 16);
  }
  std::vector<std::uint8_t> out(header.file_bytes, 0);
  std::memcpy(out.data(), &header, sizeof header);
  std::memcpy(out.data() + header.kernel_offset, kernels.data(), kernels.size() * sizeof(jal_kernel_entry));
  std::memcpy(out.data() + header.sections[0].offset, native.data(), native.size());
  header.checksum = module_checksum(out);
  std::memcpy(out.data(), &header, sizeof header);
  return out;
}

std::string describe_module(std::span<const std::uint8_t> module) {
  jal_module_header header;
  if (module.size() < sizeof header)
    throw Failure(fmt::format("{} bytes: a module's header alone has {}", module.size(), sizeof header));
  std::memcpy(&header, module.data(), sizeof header);
  if (header.magic != JAL_MODULE_MAGIC) throw Failure("not a .jko: the first bytes are not JKO1");
  if (header.version != JAL_MODULE_VERSION)
    throw Failure(fmt::format("module version {}; this jalcc reads {}", header.version, JAL_MODULE_VERSION));
  if (header.file_bytes != module.size())
    throw Failure(fmt::format("the header says {} bytes, the file has {}", header.file_bytes, module.size()));
  if (const std::uint64_t sum = module_checksum(module); sum != header.checksum) {
    throw Failure(
        fmt::format("checksum {:#x} differs from the header's {:#x}: the file is damaged", sum, header.checksum));
  }
  if (std::any_of(std::begin(header.reserved), std::end(header.reserved), [](std::uint64_t word) { return word != 0; }))
    throw Failure("a reserved field of the header is set");
  if (header.kernel_count < 1 || header.kernel_count > JAL_MODULE_KERNELS_MAX || header.kernel_offset % 8 != 0 ||
      header.kernel_offset > module.size() ||
      header.kernel_count * sizeof(jal_kernel_entry) > module.size() - header.kernel_offset) {
    throw Failure(fmt::format("a table of {} kernels at {} is not legal in this file", header.kernel_count,
                              header.kernel_offset));
  }
  std::string out = "build id ";
  for (const std::uint8_t byte : header.build_id) out += fmt::format("{:02x}", byte);
  out += "\n";
  for (const jal_module_section& s : header.sections) {
    if (s.arch == 0 && s.reserved == 0 && s.offset == 0 && s.bytes == 0) continue;
    if (s.arch == 0 || s.reserved != 0 || s.offset % 64 != 0 || s.offset > module.size() ||
        s.bytes > module.size() - s.offset)
      throw Failure(fmt::format("a section {{arch {}, offset {}, bytes {}}} is not legal in a file of {} bytes", s.arch,
                                s.offset, s.bytes, module.size()));
    out += fmt::format("section {} {} bytes\n",
                       s.arch == JAL_ARCH_NATIVE_X86_64 ? "native-x86-64"
                       : s.arch == JAL_ARCH_RV64IMAC    ? "rv64imac"
                                                        : "unknown",
                       s.bytes);
  }
  for (std::uint32_t i = 0; i < header.kernel_count; ++i) {
    jal_kernel_entry kernel;
    std::memcpy(&kernel, module.data() + header.kernel_offset + i * sizeof kernel, sizeof kernel);
    check_entry(kernel);
    out += fmt::format("kernel {}(", kernel.name);
    for (std::uint32_t a = 0; a < kernel.argument_count; ++a)
      out += fmt::format("{}{}", a == 0 ? "" : ", ", argument_text(kernel.arguments[a].type));
    out += fmt::format(") {} argument bytes\n", kernel.argument_bytes);
  }
  return out;
}

}  // namespace jal::cc
