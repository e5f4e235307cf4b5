// What goes wrong with a model file, as a code and a sentence.
//
// What it is not: a device error; the SDK's statuses are jal_status_t. The program maps these codes at its outermost
// level. Invariant: what() names the file or tensor, the value found, the limit, and what to do.
#pragma once
#include <stdexcept>
#include <string>

namespace jal::llm {

enum class GgufErrorCode {
  cannot_read,     ///< the file cannot be opened or mapped (missing, no permission, not a regular file)
  truncated,       ///< something named in the file lies past its end
  corrupt,         ///< the bytes contradict the format, each other, or the known SHA-256
  unknown_type,    ///< a tensor or metadata type that this reader cannot decode
  too_large,       ///< a count or dimension beyond any model of this kind
  missing_tensor,  ///< a tensor or metadata key that the model needs is absent
  unsupported,     ///< valid, but not a model, tokenizer or chat template that this program implements
};

/// Thrown by everything in jal::llm that reads a model file. Nothing is left half done by it.
class GgufError : public std::runtime_error {
 public:
  GgufError(GgufErrorCode code, const std::string& message) : std::runtime_error(message), code_(code) {}
  GgufErrorCode code() const noexcept { return code_; }

 private:
  GgufErrorCode code_;
};

}  // namespace jal::llm
