// Status and Result: what host C++ returns where the C ABI returns jal_status_t.
//
// What it is not: an exception or a message. The message lies in the thread's error frames (error_frames.hpp); a Status
// is one int and costs nothing on success. Invariant: a Result holds a value if and only if its status is OK.
#pragma once
#include <jal/abi/status.h>

#include <optional>
#include <type_traits>
#include <utility>

namespace jal::drv {

class [[nodiscard]] Status {
 public:
  constexpr Status() = default;
  // Implicit on purpose: `return JAL_ERROR_BUSY;` is how hot paths fail.
  constexpr Status(jal_status_t code) : code_(code) {}
  constexpr bool ok() const { return code_ == JAL_OK; }
  constexpr jal_status_t code() const { return code_; }
  /// Says that failing is fine here.
  constexpr void ignore() const {}
  friend constexpr bool operator==(Status a, Status b) { return a.code_ == b.code_; }

 private:
  jal_status_t code_ = JAL_OK;
};

template <typename T>
class [[nodiscard]] Result {
 public:
  template <typename U = T>
  requires(std::is_constructible_v<T, U&&> && !std::is_same_v<std::remove_cvref_t<U>, Status> &&
           !std::is_same_v<std::remove_cvref_t<U>, Result>) Result(U&& value)
      : value_(std::forward<U>(value)) {}
  /// `failure` must not be OK: a Result without a value has a reason.
  Result(Status failure) : status_(failure.ok() ? Status(JAL_ERROR_INTERNAL) : failure) {}

  bool ok() const { return value_.has_value(); }
  Status status() const { return status_; }
  jal_status_t code() const { return status_.code(); }
  T& operator*() { return *value_; }
  const T& operator*() const { return *value_; }
  T* operator->() { return &*value_; }
  const T* operator->() const { return &*value_; }

 private:
  Status status_;
  std::optional<T> value_;
};

}  // namespace jal::drv

/// Returns from the enclosing function if the expression's Status is a failure.
#define JAL_RETURN_IF_ERROR(expression)                                                             \
  do {                                                                                              \
    if (const ::jal::drv::Status jal_status_ = (expression); !jal_status_.ok()) return jal_status_; \
  } while (false)
