// SPDX-License-Identifier: Apache-2.0
// Reads the meaning of an attention mask off the nodes that make it: comparisons of positions, for which attention
// needs no memory.
#pragma once

#include <optional>

#include "ir/graph.h"

namespace npugraph::passes {

// A query i sees those keys from i + position - before to i + position + after that `rest` does not hide. An empty
// bound does not limit.
struct KeyMask {
  std::optional<Expr> before;
  std::optional<Expr> after;
  ir::ValueId position = ir::kNone;  // one i64 in memory; kNone: 0
  ir::ValueId rest = ir::kNone;      // a mask of booleans, or kNone
};

// Reads a mask whose last dimensions are `queries` and `keys`: booleans, or floats that are 0 where a key is seen and
// -infinity elsewhere. Very low finite numbers count as -infinity if each query sees a key. nullopt if no part of the
// mask is a comparison of positions.
std::optional<KeyMask> read_key_mask(const ir::Graph& graph, ir::ValueId mask, const Expr& queries, const Expr& keys);

}  // namespace npugraph::passes
