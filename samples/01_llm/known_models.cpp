// SHA-256 through EVP, and the comparison.
#include "samples/01_llm/known_models.hpp"

#include <openssl/evp.h>
#include <spdlog/fmt/fmt.h>

#include <stdexcept>

namespace jal::llm {
namespace {

#define JAL_KNOWN_MODEL(file, size, hash, package, version, member) KnownModel{file, size, hash},
constexpr KnownModel kKnownModels[] = {
#include "samples/01_llm/known_models.inc"
};
#undef JAL_KNOWN_MODEL

}  // namespace

Sha256 sha256(std::span<const std::uint8_t> bytes) {
  Sha256 hash{};
  unsigned size = 0;
  if (EVP_Digest(bytes.data(), bytes.size(), hash.data(), &size, EVP_sha256(), nullptr) != 1 || size != hash.size()) {
    throw std::runtime_error("libcrypto could not compute a SHA-256; is a provider with it configured?");
  }
  return hash;
}

std::string hex(const Sha256& hash) {
  std::string text;
  for (const std::uint8_t byte : hash) text += fmt::format("{:02x}", byte);
  return text;
}

std::span<const KnownModel> known_models() { return kKnownModels; }

Sha256 verify_known_model(std::string_view path, std::span<const std::uint8_t> bytes, const KnownModel** out_known) {
  const std::string_view file_name = path.substr(path.rfind('/') + 1);
  const Sha256 hash = sha256(bytes);
  const std::string text = hex(hash);
  if (out_known != nullptr) *out_known = nullptr;
  for (const KnownModel& known : kKnownModels) {
    if (text == known.sha256_hex) {
      if (out_known != nullptr) *out_known = &known;
      return hash;
    }
    if (file_name != known.file_name && bytes.size() != known.size_bytes) continue;
    if (bytes.size() < known.size_bytes) {
      throw GgufError(GgufErrorCode::truncated,
                      fmt::format("{}: has {} bytes, {} has {}; delete the file and fetch it again (./x demo does)",
                                  path, bytes.size(), known.file_name, known.size_bytes));
    }
    throw GgufError(
        GgufErrorCode::corrupt,
        fmt::format("{}: SHA-256 is {}, that of {} is {}; delete the file and fetch it again (./x demo does)", path,
                    text, known.file_name, known.sha256_hex));
  }
  return hash;
}

}  // namespace jal::llm
