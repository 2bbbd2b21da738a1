// SPDX-License-Identifier: Apache-2.0
// The dimensions that the loops of a nest walk over. Internal to lower/.
#pragma once

#include <vector>

#include "tensor/expr.h"

namespace npugraph::lower {

// Outermost first.
struct Layout {
  std::vector<Expr> sizes;
  std::vector<std::vector<Expr>> strides;  // per access, in each of them
  std::vector<int> place;                  // per dimension of the space: which one it is; kNone where it has size 1
  size_t row = 0;                          // the first one of the row
  size_t reused = 0;                       // how many of those in front of the row large accesses are broadcast over
};

struct LayoutRequest {
  const std::vector<Expr>& space;
  const std::vector<std::vector<Expr>>& strides;  // per access, in the dimensions of the space
  const std::vector<bool>& stay;                  // dimensions that are kept as they are
  size_t row_rank = 0;      // how many of the last dimensions are a row that stays apart; 0: all may be one
  bool by_columns = false;  // there is a dimension in front of the row
};

// The product of sizes [begin, end).
Expr product(const std::vector<Expr>& sizes, size_t begin, size_t end);
Expr ceil_div(const Expr& a, const Expr& b);

// Merges dimensions that all accesses walk through as if they were one, and drops those of size 1.
Layout collapse(const LayoutRequest& request);

// Where an access that no cache holds is broadcast over dimensions in front of the row, these go inside the others: what one of
// them read is read again at once. Sizes must be known.
void put_reused_inside(Layout& layout);

}  // namespace npugraph::lower
