// SPDX-License-Identifier: Apache-2.0
// What a mask of attention says, read off the nodes that make it: comparisons of positions, which attention needs no memory for.
#pragma once

#include <optional>

#include "ir/graph.h"

namespace npugraph::passes {

// A query i sees the keys from i + position - before to i + position + after, of those that `rest` does not hide.
struct KeyMask {
  std::optional<Expr> before;
  std::optional<Expr> after;
  ir::ValueId position = ir::kNone;  // one i64 in memory; none: 0
  ir::ValueId rest = ir::kNone;      // a mask of booleans
};

// For a mask of `queries` and `keys`, its last dimensions: booleans, or floats that are 0 where a key is seen and -infinity
// elsewhere. The lowest finite number counts as -infinity where each query sees a key. Nothing where the mask is not made of
// comparisons of positions at all.
std::optional<KeyMask> read_key_mask(const ir::Graph& graph, ir::ValueId mask, const Expr& queries, const Expr& keys);

}  // namespace npugraph::passes
