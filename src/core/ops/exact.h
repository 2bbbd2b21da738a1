// SPDX-License-Identifier: Apache-2.0
// Elementwise operators that give every element the same bits in any memory layout.
#pragma once

#include "ir/graph.h"

namespace npugraph::ops {

// Whether the node rounds each element correctly, or does not round at all, and has real operands. Its results then do
// not depend on strides, alignment or how many elements are computed at once. Most elementwise operators of torch are
// not exact: full vectors and the remainder after the last one go through different approximations (sigmoid, silu,
// pow), and some assume that their result is dense (gelu). Exact operators are also cheap: computing an element costs
// no more than moving it.
bool is_exact(const ir::Graph& graph, const ir::Node& node);

}  // namespace npugraph::ops
