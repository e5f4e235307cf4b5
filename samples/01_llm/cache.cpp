// One header of 128 bytes, then the block of weights.hpp.
#include "samples/01_llm/cache.hpp"

#include <fcntl.h>
#include <spdlog/fmt/fmt.h>
#include <sys/stat.h>
#include <unistd.h>
#define XXH_INLINE_ALL
#include <xxhash.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <optional>
#include <system_error>

namespace jal::llm {
namespace {

// Raised whenever the conversion, the plan or this header changes.
constexpr std::uint32_t kVersion = 1;
constexpr char kMagic[8] = {'J', 'A', 'L', 'W', 'G', 'H', 'T', 'S'};

struct Header {
  char magic[8];
  std::uint32_t version;
  std::uint32_t format;
  std::uint8_t source_hash[32];
  std::uint64_t layout_hash;
  std::uint64_t block_bytes;
  std::uint64_t block_hash;
  std::uint64_t zero[6];
  std::uint64_t header_hash;  ///< XXH3-64 of all before it
};
static_assert(sizeof(Header) == 128);

std::uint64_t hash_of(const void* data, std::size_t size) { return XXH3_64bits(data, size); }

/// The plan as a number: names, shapes and offsets.
std::uint64_t hash_of(const WeightLayout& layout) {
  std::string text;
  for (const WeightLayout::Place& place : layout.places) {
    text += fmt::format("{} {} {} {} {} {}\n", place.tensor->name, place.tensor->rows(), place.tensor->row_elements(),
                        name_of(place.format), place.codes_offset, place.scales_offset);
  }
  return hash_of(text.data(), text.size());
}

Header header_for(const WeightLayout& layout, WeightFormat format, const Sha256& source_hash) {
  Header header{};
  std::memcpy(header.magic, kMagic, sizeof kMagic);
  header.version = kVersion;
  header.format = static_cast<std::uint32_t>(format);
  std::memcpy(header.source_hash, source_hash.data(), source_hash.size());
  header.layout_hash = hash_of(layout);
  header.block_bytes = layout.size_bytes;
  return header;
}

/// Why the file is not the one wanted, or nothing.
std::optional<std::string> objection(std::span<const std::uint8_t> bytes, const Header& wanted) {
  if (bytes.size() != sizeof(Header) + wanted.block_bytes) {
    return fmt::format("has {} bytes, should have {}", bytes.size(), sizeof(Header) + wanted.block_bytes);
  }
  Header found;
  std::memcpy(&found, bytes.data(), sizeof found);
  if (hash_of(&found, offsetof(Header, header_hash)) != found.header_hash) return "has a damaged header";
  if (std::memcmp(&found, &wanted, offsetof(Header, block_hash)) != 0)
    return "belongs to another model, format or version";
  if (hash_of(bytes.data() + sizeof(Header), bytes.size() - sizeof(Header)) != found.block_hash)
    return "does not match its checksum";
  return std::nullopt;
}

bool write_all(int fd, const void* data, std::size_t size) {
  const auto* at = static_cast<const std::uint8_t*>(data);
  while (size > 0) {
    const ssize_t written = ::write(fd, at, std::min(size, std::size_t{64} << 20));
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return false;
    at += written;
    size -= static_cast<std::size_t>(written);
  }
  return true;
}

/// Writes beside the final name and renames. Returns 0 or an errno; a failure leaves nothing behind.
int store(const std::string& path, Header header, std::span<const std::uint8_t> block) {
  std::error_code error;
  std::filesystem::create_directories(std::filesystem::path(path).parent_path(), error);
  if (error) return error.value();
  header.block_hash = hash_of(block.data(), block.size());
  header.header_hash = hash_of(&header, offsetof(Header, header_hash));
  std::string temporary = path + ".XXXXXX";
  const int fd = ::mkostemp(temporary.data(), O_CLOEXEC);
  if (fd < 0) return errno;
  // Space is asked for first: a full disk is then said at once, not after minutes of writing. Not every file system
  // can.
  const int reserved = ::posix_fallocate(fd, 0, static_cast<off_t>(sizeof header + block.size()));
  int failed = reserved == EINVAL || reserved == EOPNOTSUPP ? 0 : reserved;
  if (failed == 0 && (!write_all(fd, &header, sizeof header) || !write_all(fd, block.data(), block.size())))
    failed = errno != 0 ? errno : EIO;
  if (::close(fd) != 0 && failed == 0) failed = errno;
  if (failed == 0 && ::rename(temporary.c_str(), path.c_str()) != 0) failed = errno;
  if (failed != 0) ::unlink(temporary.c_str());
  return failed;
}

}  // namespace

std::string cache_folder() {
  // The base directory specification: a relative path counts as not set.
  const char* cache = std::getenv("XDG_CACHE_HOME");
  if (cache != nullptr && *cache == '/') return std::string(cache) + "/jal";
  const char* home = std::getenv("HOME");
  return home != nullptr && *home != '\0' ? std::string(home) + "/.cache/jal" : std::string();
}

std::string cache_path(const std::string& folder, WeightFormat format, const Sha256& source_hash) {
  return fmt::format("{}/{}-{}.weights", folder, hex(source_hash).substr(0, 32), name_of(format));
}

Weights load_weights(const ModelTensors& tensors, WeightFormat format, const Sha256& source_hash, unsigned threads,
                     const std::string& folder, const Notice& say) {
  if (folder.empty()) return Weights::convert(tensors, format, threads);
  const std::string path = cache_path(folder, format, source_hash);
  const Header wanted = header_for(plan_weights(tensors, format), format, source_hash);
  try {
    MappedFile file(path);
    const auto wrong = objection(file.bytes(), wanted);
    if (!wrong) return Weights::adopt(tensors, format, std::move(file), sizeof(Header));
    say(fmt::format("cached weights {} {}; converting again", path, *wrong));
  } catch (const std::system_error& error) {
    if (error.code() != std::errc::no_such_file_or_directory)
      say(fmt::format("cached weights cannot be read: {}; converting again", error.what()));
  }
  Weights weights = Weights::convert(tensors, format, threads);
  if (const int failed = store(path, wanted, weights.block()); failed != 0) {
    say(fmt::format("weights ({} MB) could not be cached at {}: {}; the next start converts again",
                    weights.block().size() / 1000000, path, std::generic_category().message(failed)));
  }
  return weights;
}

}  // namespace jal::llm
