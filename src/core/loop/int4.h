// SPDX-License-Identifier: Apache-2.0
// The layout of the weights of aten._weight_int4pack_mm_for_cpu, which depends on the processor on which torch packed
// them: a matrix [n, k] of codes of 4 bits as bytes [n, k / 2]. Its rows come in blocks of `columns` (columns of the
// product); for each k, a block holds one byte for every two of its columns. n is a multiple of 16.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace npugraph::loop {

struct Int4Packing {
  int columns = 64;    // of a block; the last block has the rest
  bool halves = true;  // a byte holds one column of each half of a block, else two adjacent ones, as always in the rest

  bool operator==(const Int4Packing&) const = default;
};

// What torch does with AVX-512, with AVX2, on other processors with vectors of 8 f32, and with those of 4.
inline constexpr Int4Packing kInt4Packings[] = {{64, true}, {32, true}, {32, false}, {16, false}};

struct Int4Place {
  int64_t byte = 0;
  int shift = 0;
};

// The place of the code of column `column` at k = `step`.
inline Int4Place place_of_code(const Int4Packing& packing, int64_t n, int64_t k, int64_t column, int64_t step) {
  const int64_t first = column / packing.columns * packing.columns;
  const int64_t width = std::min<int64_t>(packing.columns, n - first);
  const bool halves = packing.halves && width == packing.columns;
  const int64_t half = width / 2, at = column - first;
  const int64_t upper = halves ? at / half : at % 2;
  return {first * k / 2 + step * half + (halves ? at % half : at / 2), upper != 0 ? 4 : 0};
}

// "64 halves" or "32 pairs".
inline std::string print(const Int4Packing& packing) {
  return std::to_string(packing.columns) + (packing.halves ? " halves" : " pairs");
}

// The reverse of print(); nullopt for other words.
inline std::optional<Int4Packing> int4_packing(std::string_view columns, std::string_view order) {
  for (const Int4Packing& packing : kInt4Packings) {
    const std::string known = print(packing);
    if (known.size() == columns.size() + 1 + order.size() && known.starts_with(columns) && known.ends_with(order))
      return packing;
  }
  return std::nullopt;
}

}  // namespace npugraph::loop
