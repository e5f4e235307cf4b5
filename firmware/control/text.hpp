// Text for error records: a bounded buffer that formats without a heap or a library.
//
// What it is not: printf. Text beyond the buffer is cut; the buffer is always NUL-terminated.
#pragma once
#include <stdint.h>

namespace jal::fw {

class Text {
 public:
  /// Writes into out[0 .. bytes); bytes >= 1.
  Text(char* out, uint32_t bytes) : out_(out), bytes_(bytes) { out_[0] = '\0'; }

  Text& operator<<(const char* text) {
    while (*text != '\0') put(*text++);
    return *this;
  }
  Text& operator<<(uint64_t value) {
    char digits[20];
    int n = 0;
    do {
      digits[n++] = static_cast<char>('0' + value % 10);
      value /= 10;
    } while (value != 0);
    while (n > 0) put(digits[--n]);
    return *this;
  }
  Text& operator<<(uint32_t value) { return *this << static_cast<uint64_t>(value); }
  Text& operator<<(int32_t value) {
    if (value >= 0) return *this << static_cast<uint64_t>(value);
    put('-');
    return *this << (~static_cast<uint64_t>(static_cast<int64_t>(value)) + 1);
  }
  /// Hexadecimal with 0x.
  Text& hex(uint64_t value) {
    *this << "0x";
    int shift = 60;
    while (shift > 0 && (value >> shift) == 0) shift -= 4;
    for (; shift >= 0; shift -= 4) put("0123456789abcdef"[(value >> shift) & 15]);
    return *this;
  }

 private:
  void put(char c) {
    if (used_ + 1 >= bytes_) return;
    out_[used_++] = c;
    out_[used_] = '\0';
  }

  char* out_;
  uint32_t bytes_;
  uint32_t used_ = 0;
};

}  // namespace jal::fw
