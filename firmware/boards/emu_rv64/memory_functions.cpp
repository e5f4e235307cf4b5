// The memory functions that the compiler and the firmware call: there is no C library here.
//
// Compiled with -fno-tree-loop-distribute-patterns, or the compiler would turn their loops into calls of themselves.
#include <stddef.h>
#include <stdint.h>

namespace {

bool is_aligned(uintptr_t bits) { return bits % sizeof(uint64_t) == 0; }

}  // namespace

extern "C" {

void* memcpy(void* __restrict to, const void* __restrict from, size_t bytes) {
  auto* out = static_cast<uint8_t*>(to);
  const auto* in = static_cast<const uint8_t*>(from);
  // Words where both sides allow it: packets, records and regions are aligned.
  if (is_aligned(reinterpret_cast<uintptr_t>(to) | reinterpret_cast<uintptr_t>(from))) {
    for (; bytes >= sizeof(uint64_t); bytes -= sizeof(uint64_t), out += sizeof(uint64_t), in += sizeof(uint64_t))
      *reinterpret_cast<uint64_t*>(out) = *reinterpret_cast<const uint64_t*>(in);
  }
  for (; bytes != 0; --bytes) *out++ = *in++;
  return to;
}

void* memset(void* to, int value, size_t bytes) {
  auto* out = static_cast<uint8_t*>(to);
  const auto byte = static_cast<uint8_t>(value);
  for (; bytes != 0 && !is_aligned(reinterpret_cast<uintptr_t>(out)); --bytes) *out++ = byte;
  const uint64_t word = byte * 0x0101010101010101ull;
  for (; bytes >= sizeof word; bytes -= sizeof word, out += sizeof word) *reinterpret_cast<uint64_t*>(out) = word;
  for (; bytes != 0; --bytes) *out++ = byte;
  return to;
}

void* memchr(const void* in, int value, size_t bytes) {
  const auto* at = static_cast<const uint8_t*>(in);
  for (; bytes != 0; --bytes, ++at) {
    if (*at == static_cast<uint8_t>(value)) return const_cast<uint8_t*>(at);
  }
  return nullptr;
}

void* memmove(void* to, const void* from, size_t bytes) {
  auto* out = static_cast<uint8_t*>(to);
  const auto* in = static_cast<const uint8_t*>(from);
  if (reinterpret_cast<uintptr_t>(out) <= reinterpret_cast<uintptr_t>(in)) {
    for (size_t i = 0; i < bytes; ++i) out[i] = in[i];
  } else {
    for (size_t i = bytes; i-- > 0;) out[i] = in[i];
  }
  return to;
}

int memcmp(const void* a, const void* b, size_t bytes) {
  const auto* left = static_cast<const uint8_t*>(a);
  const auto* right = static_cast<const uint8_t*>(b);
  for (size_t i = 0; i < bytes; ++i) {
    if (left[i] != right[i]) return left[i] < right[i] ? -1 : 1;
  }
  return 0;
}

}  // extern "C"
