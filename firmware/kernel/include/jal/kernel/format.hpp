// Device printf: %d %i %u %x %c %s %p %f %%, with l and ll, width, 0 and precision. Freestanding.
//
// What it is not: the C library's. A conversion that does not fit its argument's type prints "<?>"; nothing is read
// past the arguments. Text beyond kPrintBytes is cut.
#pragma once
#include <stdint.h>

#include <jal/kernel/core.hpp>

namespace jal::kernel {

inline constexpr uint32_t kPrintBytes = 256;

namespace detail {

/// One argument with its kind, so that a wrong conversion is seen.
struct PrintValue {
  enum Kind { none, integer, unsigned_integer, real, text, pointer } kind;
  uint64_t bits;
  double number;
  const char* string;
  PrintValue() : kind(none), bits(0), number(0), string(nullptr) {}
  PrintValue(int v) : kind(integer), bits(static_cast<uint64_t>(static_cast<int64_t>(v))), number(0), string(nullptr) {}
  PrintValue(long v) : kind(integer), bits(static_cast<uint64_t>(v)), number(0), string(nullptr) {}
  PrintValue(long long v) : kind(integer), bits(static_cast<uint64_t>(v)), number(0), string(nullptr) {}
  PrintValue(unsigned v) : kind(unsigned_integer), bits(v), number(0), string(nullptr) {}
  PrintValue(unsigned long v) : kind(unsigned_integer), bits(v), number(0), string(nullptr) {}
  PrintValue(unsigned long long v) : kind(unsigned_integer), bits(v), number(0), string(nullptr) {}
  PrintValue(double v) : kind(real), bits(0), number(v), string(nullptr) {}
  PrintValue(const char* v) : kind(text), bits(0), number(0), string(v) {}
  PrintValue(const void* v) : kind(pointer), bits(reinterpret_cast<uint64_t>(v)), number(0), string(nullptr) {}
};

class Printer {
 public:
  uint32_t format(const char* f, const PrintValue* values, uint32_t count) {
    uint32_t next = 0;
    for (; *f != '\0'; ++f) {
      if (*f != '%') {
        put(*f);
        continue;
      }
      ++f;
      if (*f == '%') {
        put('%');
        continue;
      }
      const bool zero = *f == '0';
      uint32_t width = 0;
      while (*f >= '0' && *f <= '9') width = width * 10 + static_cast<uint32_t>(*f++ - '0');
      uint32_t precision = 6;
      if (*f == '.') {
        precision = 0;
        for (++f; *f >= '0' && *f <= '9'; ++f) precision = precision * 10 + static_cast<uint32_t>(*f - '0');
      }
      while (*f == 'l' || *f == 'z') ++f;
      if (*f == '\0') break;
      convert(*f, next < count ? values[next] : PrintValue(), width, precision > 9 ? 9 : precision, zero);
      ++next;
    }
    return used_;
  }
  const char* data() const { return buffer_; }

 private:
  void put(char c) {
    if (used_ < kPrintBytes) buffer_[used_++] = c;
  }
  void put_all(const char* s) {
    while (*s != '\0') put(*s++);
  }
  void number(uint64_t value, uint32_t base, bool negative, uint32_t width, bool zero) {
    char digits[24];
    uint32_t n = 0;
    do {
      digits[n++] = "0123456789abcdef"[value % base];
      value /= base;
    } while (value != 0);
    const uint32_t length = n + (negative ? 1u : 0u);
    if (negative && zero) put('-');
    for (uint32_t i = length; i < width && i < kPrintBytes; ++i) put(zero ? '0' : ' ');
    if (negative && !zero) put('-');
    while (n > 0) put(digits[--n]);
  }
  void real(double value, uint32_t precision, uint32_t width) {
    if (value != value) return put_all("nan");
    const bool negative = value < 0;
    if (negative) value = -value;
    if (value > 1e18) return put_all(negative ? "-inf or above 1e18" : "inf or above 1e18");
    uint64_t scale = 1;
    for (uint32_t i = 0; i < precision; ++i) scale *= 10;
    uint64_t whole = static_cast<uint64_t>(value);
    uint64_t fraction = static_cast<uint64_t>((value - static_cast<double>(whole)) * static_cast<double>(scale) + 0.5);
    if (fraction >= scale) {
      fraction -= scale;
      ++whole;
    }
    const uint32_t tail = precision == 0 ? 0 : precision + 1;
    number(whole, 10, negative, width > tail ? width - tail : 0, false);
    if (precision == 0) return;
    put('.');
    number(fraction, 10, false, precision, true);
  }
  void convert(char c, const PrintValue& v, uint32_t width, uint32_t precision, bool zero) {
    const bool is_integer = v.kind == PrintValue::integer || v.kind == PrintValue::unsigned_integer;
    const bool negative = v.kind == PrintValue::integer && static_cast<int64_t>(v.bits) < 0;
    if ((c == 'd' || c == 'i' || c == 'u') && is_integer) {
      number(negative ? ~v.bits + 1 : v.bits, 10, negative, width, zero);
    } else if (c == 'x' && is_integer) {
      number(v.bits, 16, false, width, zero);
    } else if (c == 'c' && is_integer) {
      put(static_cast<char>(v.bits));
    } else if (c == 'f' && v.kind == PrintValue::real) {
      real(v.number, precision, width);
    } else if (c == 's' && v.kind == PrintValue::text && v.string != nullptr) {
      put_all(v.string);
    } else if (c == 'p' && v.kind == PrintValue::pointer) {
      put_all("0x");
      number(v.bits, 16, false, width, zero);
    } else {
      put_all("<?>");
    }
  }

  char buffer_[kPrintBytes];
  uint32_t used_ = 0;
};

}  // namespace detail

template <typename... A>
void Core::printf(const char* format, A... values) {
  const detail::PrintValue list[sizeof...(A) + 1] = {detail::PrintValue(values)..., detail::PrintValue()};
  detail::Printer printer;
  const uint32_t bytes = printer.format(format, list, sizeof...(A));
  print(printer.data(), bytes);
}

}  // namespace jal::kernel
