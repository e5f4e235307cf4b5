// Reading and publishing words that the other side shares. The only place that pairs acquire with release.
#pragma once
#include <stdint.h>

namespace jal::fw {

/// Pairs with the client's release store of the same word.
template <typename T>
T load_acquire(const T* word) {
  return __atomic_load_n(word, __ATOMIC_ACQUIRE);
}

/// Pairs with the client's acquire load of the same word.
template <typename T>
void store_release(T* word, T value) {
  __atomic_store_n(word, value, __ATOMIC_RELEASE);
}

}  // namespace jal::fw
