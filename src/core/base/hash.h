// SPDX-License-Identifier: Apache-2.0
// Mixing of hash values. In-process only: values may change between versions and must not be saved.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>

namespace npugraph {

// The 64-bit finaliser of MurmurHash3: every input bit affects every output bit.
constexpr uint64_t mix_bits(uint64_t x) {
  x = (x ^ (x >> 33)) * 0xff51afd7ed558ccdULL;
  x = (x ^ (x >> 33)) * 0xc4ceb9fe1a85ec53ULL;
  return x ^ (x >> 33);
}

// Adds `value` to the running hash `seed`. Order matters.
constexpr void hash_combine(size_t& seed, size_t value) {
  seed = mix_bits(seed * 0x9e3779b97f4a7c15ULL + value + 0x2545f4914f6cdd1dULL);
}

// Hash of several values, each by std::hash.
template <typename... Values>
size_t hash_of(const Values&... values) {
  size_t seed = sizeof...(values);
  (hash_combine(seed, std::hash<Values>()(values)), ...);
  return seed;
}

}  // namespace npugraph
