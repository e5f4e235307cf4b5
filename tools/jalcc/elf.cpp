// ELF64 reader. See elf.hpp; structures are those of <elf.h>.
#include "tools/jalcc/elf.hpp"

#include <elf.h>
#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <cstring>

namespace jal::cc {
namespace {

template <typename T>
T read(std::span<const std::uint8_t> bytes, std::uint64_t offset) {
  if (offset > bytes.size() || bytes.size() - offset < sizeof(T)) {
    throw Failure(fmt::format("the compiler's output is no complete ELF file: {} bytes at {} lie outside its {} bytes",
                              sizeof(T), offset, bytes.size()));
  }
  T value;
  std::memcpy(&value, bytes.data() + offset, sizeof value);
  return value;
}

std::string text_at(std::span<const std::uint8_t> table, std::uint64_t offset) {
  if (offset >= table.size())
    throw Failure(fmt::format("a name at {} lies outside its string table of {} bytes", offset, table.size()));
  const auto* begin = reinterpret_cast<const char*>(table.data()) + offset;
  const void* end = std::memchr(begin, '\0', table.size() - offset);
  if (end == nullptr) throw Failure("a string table is not terminated");
  return std::string(begin, static_cast<const char*>(end));
}

}  // namespace

ElfFile::ElfFile(std::span<const std::uint8_t> bytes) : bytes_(bytes) {
  const auto header = read<Elf64_Ehdr>(bytes, 0);
  if (std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 || header.e_ident[EI_CLASS] != ELFCLASS64 ||
      header.e_ident[EI_DATA] != ELFDATA2LSB || header.e_shentsize != sizeof(Elf64_Shdr)) {
    throw Failure("the compiler's output is not a little-endian ELF64 file");
  }
  const auto raw = [&](std::uint32_t i) { return read<Elf64_Shdr>(bytes, header.e_shoff + i * sizeof(Elf64_Shdr)); };
  const auto contents = [&](const Elf64_Shdr& s) -> std::span<const std::uint8_t> {
    if (s.sh_type == SHT_NOBITS) return {};
    if (s.sh_offset > bytes.size() || s.sh_size > bytes.size() - s.sh_offset) {
      throw Failure(fmt::format("a section of {} bytes at {} lies outside the file of {} bytes", s.sh_size, s.sh_offset,
                                bytes.size()));
    }
    return bytes.subspan(s.sh_offset, s.sh_size);
  };
  const auto names = contents(raw(header.e_shstrndx));
  for (std::uint32_t i = 0; i < header.e_shnum; ++i) {
    const Elf64_Shdr s = raw(i);
    sections_.push_back({text_at(names, s.sh_name), s.sh_type, s.sh_link, contents(s)});
  }
  for (const Section& s : sections_) {
    if (s.type != SHT_DYNSYM || s.link >= sections_.size()) continue;
    for (std::uint64_t at = sizeof(Elf64_Sym); at + sizeof(Elf64_Sym) <= s.bytes.size(); at += sizeof(Elf64_Sym)) {
      const auto symbol = read<Elf64_Sym>(s.bytes, at);
      symbols_.push_back({text_at(sections_[s.link].bytes, symbol.st_name), symbol.st_shndx != SHN_UNDEF,
                          ELF64_ST_BIND(symbol.st_info) == STB_WEAK});
    }
  }
}

std::span<const std::uint8_t> ElfFile::section(const std::string& name) const {
  for (const Section& s : sections_) {
    if (s.name == name) return s.bytes;
  }
  return {};
}

std::vector<std::string> ElfFile::undefined() const {
  std::vector<std::string> names;
  for (const Symbol& symbol : symbols_) {
    if (!symbol.is_defined && !symbol.is_weak) names.push_back(symbol.name);
  }
  std::sort(names.begin(), names.end());
  return names;
}

bool ElfFile::defines(const std::string& symbol) const {
  return std::any_of(symbols_.begin(), symbols_.end(),
                     [&](const Symbol& s) { return s.is_defined && s.name == symbol; });
}

}  // namespace jal::cc
