// Host address space of one chip's HBM: one reservation without access, carved into extents.
//
// What it is not: it knows no slices, pages or owners. Access is given and memory returned in granules of 2 MiB, so
// that neighbouring small extents share huge pages (worth 1.5x in bandwidth; measured). A granule gets a huge page only
// once something large is written to it: where each core writes a few hundred bytes here and there, as to a KV cache,
// clearing 2 MiB for them costs more than small pages do. Invariant: bytes of an extent read zero when it is handed
// out; a granule is accessible while an extent lies in it. Threads: externally synchronised.
#pragma once
#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>

namespace jal::emu {

class ExtentSpace {
 public:
  static constexpr std::uint64_t kGranuleBytes = 2u << 20;
  static constexpr std::uint64_t kAlignBytes = 4096;
  /// A write this large is worth huge pages: parts of tensors are sent slice by slice, a few rows each.
  static constexpr std::uint64_t kDenseBytes = 4096;

  explicit ExtentSpace(std::uint64_t bytes) : bytes_((bytes + kGranuleBytes - 1) / kGranuleBytes * kGranuleBytes) {}
  ~ExtentSpace();
  ExtentSpace(const ExtentSpace&) = delete;
  ExtentSpace& operator=(const ExtentSpace&) = delete;

  /// Bytes an extent of that size takes: a multiple of kAlignBytes.
  static std::uint64_t taken(std::uint64_t bytes) { return (bytes + kAlignBytes - 1) / kAlignBytes * kAlignBytes; }

  /// Best fit, lowest address. nullptr with *error if the system refuses or no hole is large enough. Reserves on first
  /// use.
  std::byte* allocate(std::uint64_t bytes, std::string* error);
  /// Scrubs and returns an extent of that very address and size.
  void release(std::byte* data, std::uint64_t bytes) noexcept;

  /// Before `bytes` bytes at `data`, within an extent, are written at once: if they are kDenseBytes or more, their
  /// granules get huge pages where no page is there yet, until they are released. A system without them changes
  /// nothing.
  void expect_write(const std::byte* data, std::uint64_t bytes) noexcept;

  /// Holes between and behind extents; 1 when empty (for tests: coalescing).
  std::size_t holes() const { return by_offset_.size(); }

 private:
  struct Granule {
    std::uint32_t users;  // extents that lie in it
    std::uint32_t is_huge;
  };

  bool reserve(std::string* error);
  bool open_granules(std::uint64_t offset, std::uint64_t bytes, std::string* error);
  void close_granules(std::uint64_t offset, std::uint64_t bytes) noexcept;
  void add_hole(std::uint64_t offset, std::uint64_t bytes);
  void remove_hole(std::map<std::uint64_t, std::uint64_t>::iterator hole);

  std::uint64_t bytes_;
  void* reservation_ = nullptr;  // with what alignment costs
  std::byte* base_ = nullptr;
  Granule* granules_ = nullptr;  // lazily touched
  std::map<std::uint64_t, std::uint64_t> by_offset_;
  std::set<std::pair<std::uint64_t, std::uint64_t>> by_size_;
};

/// Memory of that size that reads zero and costs nothing until touched; nullptr if the system refuses. Free with
/// munmap.
void* map_lazy_zeroes(std::uint64_t bytes) noexcept;

}  // namespace jal::emu
