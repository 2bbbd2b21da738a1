// SPDX-License-Identifier: Apache-2.0
// Which elementwise operators give every element the same bits however the elements lie in memory.
#pragma once

#include "ir/graph.h"

namespace npugraph::ops {

// Operators that round each element correctly, or do not round at all, of real types: results do not depend on
// strides, alignment or how many elements are computed at once. Most elementwise operators of torch are not of this kind: vectors
// and what is left over behind the last full vector go through different approximations (sigmoid, silu, pow), and some take
// their result to be dense (gelu). The operators here are also cheap: computing an element costs no more than moving it.
bool is_exact(const ir::Graph& graph, const ir::Node& node);

}  // namespace npugraph::ops
