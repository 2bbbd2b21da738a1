// SPDX-License-Identifier: Apache-2.0
// The dimensions that the loops of a nest walk over. Internal to lower/.
#pragma once

#include <vector>

#include "tensor/expr.h"

namespace npugraph::lower {

// Outermost first.
struct Layout {
  std::vector<Expr> sizes;
  std::vector<std::vector<Expr>> strides;  // per access, in each of these dimensions
  std::vector<int> place;                  // per dimension of the space: its index here; kNone if it has size 1
  size_t row = 0;                          // index of the first dimension of the row
  size_t reused = 0;  // number of dimensions directly in front of the row over which large accesses are broadcast
};

struct LayoutRequest {
  const std::vector<Expr>& space;
  const std::vector<std::vector<Expr>>& strides;  // per access, in the dimensions of the space
  const std::vector<bool>& stay;                  // per dimension: whether it is kept as it is
  size_t row_rank = 0;      // number of last dimensions that form a row and stay apart; 0: all may be merged
  bool by_columns = false;  // there must be a dimension in front of the row
};

// The product of sizes [begin, end).
Expr product(const std::vector<Expr>& sizes, size_t begin, size_t end);
Expr ceil_div(const Expr& a, const Expr& b);

// Merges dimensions that all accesses walk through as if they were one, and drops those of size 1.
Layout collapse(const LayoutRequest& request);

// If an access too large for the cache is broadcast over dimensions in front of the row, moves these inside the others,
// so that the same elements are read again at once. Accesses of symbolic size are left as they are.
void put_reused_inside(Layout& layout);

}  // namespace npugraph::lower
