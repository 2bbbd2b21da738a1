// SPDX-License-Identifier: Apache-2.0
// Prefetches of memory that a task is about to touch in pieces too short for the processor to fetch ahead.
#pragma once

#include <cstdint>

namespace npugraph::codegen {

// Prefetches `bytes` bytes of each row into the cache of a level (1 or 2). Rows are `stride` bytes apart.
template <int level>
void prefetch_rows(const char* from, int64_t rows, int64_t stride, int64_t bytes) {
  constexpr int64_t kLine = 64;
  constexpr int kLocality = 4 - level;
  for (int64_t r = 0; r < rows; ++r, from += stride) {
    asm volatile("" : : "r"(from));  // GCC 12 drops functions that do nothing but prefetch
    for (int64_t at = 0; at < bytes; at += kLine) __builtin_prefetch(from + at, 0, kLocality);
  }
}

}  // namespace npugraph::codegen
