// A regular file mapped read-only: RAII over open, fstat, mmap.
//
// What it is not: a guard against somebody who shortens the file while it is mapped (that raises SIGBUS, as for any
// mapping). Invariant: bytes() covers the whole file as it was when it was opened; an empty file gives an empty span.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace jal::llm {

class MappedFile {
 public:
  MappedFile() = default;
  /// Throws std::system_error with the path and the reason when the file cannot be opened, is no regular file, or
  /// cannot be mapped.
  explicit MappedFile(const std::string& path);
  ~MappedFile();
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  std::span<const std::uint8_t> bytes() const { return {data_, size_bytes_}; }

 private:
  const std::uint8_t* data_ = nullptr;
  std::size_t size_bytes_ = 0;
};

}  // namespace jal::llm
