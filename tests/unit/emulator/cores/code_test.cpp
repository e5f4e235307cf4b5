// Code of modules: what is shared between loads, and what must not be.
#include "emulator/cores/code.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <fstream>
#include <iterator>
#include <string>

namespace jal::emu {
namespace {

std::string contents(const char* path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

std::uint32_t load(CodeTable& table, const std::string& module) {
  hal::FaultReport fault;
  std::uint32_t code = UINT32_MAX;
  EXPECT_EQ(table.load(module.data(), module.size(), &code, fault), 0) << fault.text;
  return code;
}

TEST(Code, EqualModulesShareOneLoad) {
  const std::string module = contents(JAL_PROBE);
  CodeTable table;
  const std::uint32_t a = load(table, module), b = load(table, module);
  ASSERT_NE(table.find(a, 0), nullptr);
  EXPECT_EQ(table.find(a, 0), table.find(b, 0));
  table.unload(a);
  EXPECT_NE(table.find(b, 0), nullptr) << "the other still uses it";
}

TEST(Code, ABuildIdIsNotBelieved) {
  const std::string honest = contents(JAL_PROBE);
  std::string copycat = contents(JAL_OTHER_PROBE);
  jal_module_header mine, theirs;
  std::memcpy(&theirs, honest.data(), sizeof theirs);
  std::memcpy(&mine, copycat.data(), sizeof mine);
  ASSERT_NE(std::memcmp(mine.build_id, theirs.build_id, sizeof mine.build_id), 0);
  std::memcpy(mine.build_id, theirs.build_id, sizeof mine.build_id);
  std::memcpy(copycat.data(), &mine, sizeof mine);
  CodeTable table;
  const std::uint32_t a = load(table, honest), b = load(table, copycat);
  ASSERT_NE(table.find(a, 0), nullptr);
  ASSERT_NE(table.find(b, 0), nullptr);
  EXPECT_NE(table.find(a, 0), table.find(b, 0)) << "another's code runs under this module's table";
  EXPECT_EQ(table.find(b, mine.kernel_count), nullptr);
}

}  // namespace
}  // namespace jal::emu
