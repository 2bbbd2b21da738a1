// SPDX-License-Identifier: Apache-2.0
// Rules for the number of arithmetic operations, which rows name as `.operations`. Their operands and results are strided
// tensors, or absent. Internal to ops/.
#pragma once

#include "ir/graph.h"

namespace npugraph::ops::operations {

// Each element of the result is a sum along the last dimension of a factor: the argument at this position.
Expr product_along(const ir::Graph& graph, const ir::Node& node, size_t factor);
template <size_t factor>
Expr product(const ir::Graph& graph, const ir::Node& node) {
  return product_along(graph, node, factor);
}
Expr convolution(const ir::Graph& graph, const ir::Node& node);
// As many as the convolution for each gradient that is a convolution itself: of the input and of the weight.
Expr convolution_backward(const ir::Graph& graph, const ir::Node& node);
// Scores of each query and key, and sums of values by them. Masks do not count.
Expr attention(const ir::Graph& graph, const ir::Node& node);

}  // namespace npugraph::ops::operations
