// The packer fed with damage: truncated and altered ELF files never crash it, and --verify refuses exactly what the
// firmware refuses.
#include "tools/jalcc/jko.hpp"

#include <elf.h>
#include <gtest/gtest.h>
#include <jal/abi/status.h>

#include <cstring>
#include <fstream>
#include <iterator>
#include <jal/hal/cores.hpp>
#include <random>
#include <string>
#include <vector>

#include "firmware/control/modules.hpp"
#include "tools/jalcc/elf.hpp"

// The firmware's module table links against these; check_module needs no board.
namespace jal::hal {
int32_t code_load(Board&, const void*, uint64_t, uint32_t*, FaultReport&) { return JAL_ERROR_MODULE_LOAD; }
void code_unload(Board&, uint32_t) {}
}  // namespace jal::hal

namespace jal::cc {
namespace {

using Bytes = std::vector<std::uint8_t>;

/// A real module of kernels of every argument type.
Bytes probes() {
  std::ifstream in(JAL_PROBES, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}
/// The shared object inside it.
Bytes native_of(const Bytes& module) {
  jal_module_header header;
  std::memcpy(&header, module.data(), sizeof header);
  const auto begin = module.begin() + static_cast<std::ptrdiff_t>(header.sections[0].offset);
  return {begin, begin + static_cast<std::ptrdiff_t>(header.sections[0].bytes)};
}
/// Exactly the firmware's verdict on a file.
std::int32_t firmware_says(const Bytes& module, std::string* why) {
  jal_module_header header;
  hal::FaultReport fault{};
  const std::int32_t status = fw::check_module(module.data(), module.size(), &header, fault);
  *why = fault.text;
  return status;
}
/// Whether a call refuses in the packer's own way; anything else escapes and fails the test.
template <typename Call>
bool is_refused(Call call, std::string* why) {
  try {
    call();
    return false;
  } catch (const Failure& failure) {
    *why = failure.what();
    return true;
  }
}

TEST(Elf, EveryTruncationIsRefused) {
  const Bytes whole = native_of(probes());
  ASSERT_NO_THROW(ElfFile(std::span<const std::uint8_t>(whole)).section("jal_kernels"));
  for (std::size_t size = 0; size < whole.size(); ++size) {
    const Bytes cut(whole.begin(),
                    whole.begin() + static_cast<std::ptrdiff_t>(size));  // its own block: asan sees reads
    std::string why;
    ASSERT_TRUE(is_refused([&] { (void)ElfFile(std::span<const std::uint8_t>(cut)); }, &why))
        << size << " of " << whole.size();
    ASSERT_FALSE(why.empty());
  }
}

TEST(Elf, AlteredTablesAreRefusedOrGiveAModuleThatADeviceTakes) {
  const Bytes whole = native_of(probes());
  Elf64_Ehdr header;
  std::memcpy(&header, whole.data(), sizeof header);
  // The bytes that the reader interprets: header, section headers, dynamic symbols and their names, kernel table.
  std::vector<std::size_t> places(sizeof header);
  for (std::size_t i = 0; i < places.size(); ++i) places[i] = i;
  const auto add = [&](std::size_t begin, std::size_t bytes, std::size_t step) {
    for (std::size_t at = begin; at < begin + bytes; at += step) places.push_back(at);
  };
  add(header.e_shoff, std::size_t{header.e_shnum} * sizeof(Elf64_Shdr), 1);
  for (std::uint32_t i = 0; i < header.e_shnum; ++i) {
    Elf64_Shdr section;
    std::memcpy(&section, whole.data() + header.e_shoff + i * sizeof section, sizeof section);
    if (section.sh_type == SHT_DYNSYM || section.sh_type == SHT_STRTAB) add(section.sh_offset, section.sh_size, 3);
    if (section.sh_type == SHT_PROGBITS && section.sh_size % sizeof(jal_kernel_entry) == 0)
      add(section.sh_offset, section.sh_size, 5);
  }
  ASSERT_GT(places.size(), 2000u);
  std::size_t refused = 0, taken = 0;
  for (const std::size_t at : places) {
    for (const std::uint8_t value : {std::uint8_t{0xff}, static_cast<std::uint8_t>(whole[at] ^ 1)}) {
      Bytes altered = whole;
      altered[at] = value;
      Bytes module;
      std::string why;
      if (is_refused([&] { module = make_module(altered); }, &why)) {
        ++refused;
        continue;
      }
      ++taken;
      ASSERT_EQ(firmware_says(module, &why), JAL_OK) << "byte " << at << ": " << why;
    }
  }
  EXPECT_GT(refused, 100u);
  EXPECT_GT(taken, 100u);
}

TEST(Elf, ANameWithoutItsEndIsNotReadOn) {
  Bytes altered = native_of(probes());
  const ElfFile elf{std::span<const std::uint8_t>(altered)};
  const auto table = elf.section("jal_kernels");
  ASSERT_FALSE(table.empty());
  const std::ptrdiff_t at = table.data() - altered.data();
  std::fill(altered.begin() + at, altered.begin() + at + static_cast<std::ptrdiff_t>(table.size()), 'x');
  std::string why;
  EXPECT_TRUE(is_refused([&] { (void)make_module(altered); }, &why));
  EXPECT_NE(why.find("not terminated"), std::string::npos) << why;
}

/// A small module with three kernels of the real one and a section of 64 bytes.
Bytes small_module() {
  const Bytes real = probes();
  jal_module_header header;
  std::memcpy(&header, real.data(), sizeof header);
  const std::size_t table = 3 * sizeof(jal_kernel_entry);
  Bytes module(sizeof header + table + 64);
  std::memcpy(module.data() + sizeof header, real.data() + header.kernel_offset, table);
  header.kernel_count = 3;
  header.kernel_offset = sizeof header;
  header.sections[0].offset = sizeof header + table;
  header.sections[0].bytes = 64;
  header.file_bytes = module.size();
  std::memcpy(module.data(), &header, sizeof header);
  return module;
}
void seal(Bytes& module) {
  const std::uint64_t sum = module_checksum(module);
  std::memcpy(module.data() + offsetof(jal_module_header, checksum), &sum, sizeof sum);
}

TEST(Jko, VerifyRefusesExactlyWhatTheFirmwareRefuses) {
  Bytes good = small_module();
  seal(good);
  std::string why;
  ASSERT_EQ(firmware_says(good, &why), JAL_OK) << why;
  std::mt19937 draw(20);
  std::size_t accepted = 0, refused = 0;
  for (int round = 0; round < 20'000; ++round) {
    Bytes altered = good;
    for (auto changes = 1 + draw() % 3; changes > 0; --changes) {
      // Mostly fields with a meaning: the header, and the head and arguments of an entry.
      const std::size_t entry = sizeof(jal_module_header) + draw() % 3 * sizeof(jal_kernel_entry);
      const std::size_t at = draw() % 2 == 0 ? draw() % sizeof(jal_module_header) : entry + draw() % 384;
      const std::uint8_t values[] = {0, 1, 4, 8, 9, 16, 24, 25, 63, 64, 255, static_cast<std::uint8_t>(draw())};
      altered[at] = values[draw() % std::size(values)];
    }
    if (draw() % 16 != 0) seal(altered);
    const std::int32_t status = firmware_says(altered, &why);
    std::string mine;
    const bool is_bad = is_refused([&] { (void)describe_module(altered); }, &mine);
    ASSERT_EQ(is_bad, status != JAL_OK) << "round " << round << ": firmware: " << why << "; jalcc: " << mine;
    (is_bad ? refused : accepted) += 1;
  }
  EXPECT_GT(accepted, 500u);
  EXPECT_GT(refused, 500u);
}

TEST(Jko, TruncatedModulesAreRefused) {
  Bytes good = small_module();
  seal(good);
  for (std::size_t size = 0; size < good.size(); ++size) {
    const Bytes cut(good.begin(), good.begin() + static_cast<std::ptrdiff_t>(size));
    std::string why;
    ASSERT_TRUE(is_refused([&] { (void)describe_module(cut); }, &why)) << size;
    ASSERT_NE(firmware_says(cut, &why), JAL_OK) << size;
  }
}

}  // namespace
}  // namespace jal::cc
