// SPDX-License-Identifier: Apache-2.0
// Elements of a source, or a number, that are written at places of one dimension. Internal to lower/.
#pragma once

#include <cstddef>
#include <optional>

#include "ir/graph.h"
#include "tensor/expr.h"

namespace npugraph::lower {

// (self, dim, index, source or number): the order of duplicates does not matter.
struct Scatter {
  size_t dim = 0;
  bool adds = false;
  ir::ValueId index = ir::kNone;
  ir::ValueId source = ir::kNone;  // kNone: `number`
  std::optional<Scalar> number;
};

// What a node scatters; nullopt if loops cannot. Index and source have as many dimensions as self; the index holds i32
// or i64, and the source elements of the type of self.
std::optional<Scatter> find_scatter(const ir::Graph& graph, const ir::Node& node);

}  // namespace npugraph::lower
