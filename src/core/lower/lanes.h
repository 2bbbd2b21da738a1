// SPDX-License-Identifier: Apache-2.0
// Along which dimensions of a space the elements of a value are contiguous. Internal to lower/.
#pragma once

#include <algorithm>

#include "ir/graph.h"

namespace npugraph::lower {

// Whether the elements of the value along dimension `row` of a space of this rank are contiguous, or are one element.
inline bool is_simple(const ir::TensorType& type, size_t rank, size_t row) {
  const size_t missing = rank - std::min(rank, type.sizes.size());
  if (row < missing || type.sizes[row - missing].is_int(1)) return true;
  return type.strides[row - missing].is_int(1) || type.strides[row - missing].is_int(0);
}

// Whether its elements along dimension `d` are contiguous, and more than one.
inline bool is_fast(const ir::TensorType& type, size_t rank, size_t d) {
  const size_t missing = rank - std::min(rank, type.sizes.size());
  return d >= missing && !type.sizes[d - missing].is_int(1) && type.strides[d - missing].is_int(1);
}

// Dimensions of a space. Neighbours along `lanes` share vectors; operands that are not simple along it are read in
// tiles of `lanes` and `tile`.
struct Lanes {
  int lanes = 0;
  int tile = ir::kNone;
};

}  // namespace npugraph::lower
