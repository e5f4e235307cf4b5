// Reading a host ELF64 shared object: one section's bytes, and what it leaves undefined.
//
// What it is not: a linker. Invariant: every range is checked against the file before it is used.
#pragma once
#include <cstdint>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

namespace jal::cc {

/// A refusal: the message is for the user, the program exits with status 1.
class Failure : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

class ElfFile {
 public:
  /// Throws Failure when the bytes are not a little-endian ELF64 with sane tables. `bytes` must outlive the object.
  explicit ElfFile(std::span<const std::uint8_t> bytes);

  /// Bytes of a section by name; empty if there is none.
  std::span<const std::uint8_t> section(const std::string& name) const;
  /// Names of dynamic symbols that the object needs from elsewhere, weak ones left out, sorted.
  std::vector<std::string> undefined() const;
  /// Whether it defines and exports that symbol.
  bool defines(const std::string& symbol) const;

 private:
  struct Section {
    std::string name;
    std::uint32_t type;
    std::uint32_t link;
    std::span<const std::uint8_t> bytes;
  };
  struct Symbol {
    std::string name;
    bool is_defined;
    bool is_weak;
  };
  std::span<const std::uint8_t> bytes_;
  std::vector<Section> sections_;
  std::vector<Symbol> symbols_;
};

}  // namespace jal::cc
