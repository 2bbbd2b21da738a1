// SPDX-License-Identifier: Apache-2.0
// Rules for the number of arithmetic operations, which rows name as `.operations`. The operands and results of the node
// are strided tensors or absent. Internal to ops/.
#pragma once

#include "ir/graph.h"

namespace npugraph::ops::operations {

// For products in which each element of the result is a sum along the last dimension of argument `factor`.
Expr product_along(const ir::Graph& graph, const ir::Node& node, size_t factor);
template <size_t factor>
Expr product(const ir::Graph& graph, const ir::Node& node) {
  return product_along(graph, node, factor);
}
Expr convolution(const ir::Graph& graph, const ir::Node& node);
// Counts the convolution once for each wanted gradient of the input and of the weight, which are convolutions too.
Expr convolution_backward(const ir::Graph& graph, const ir::Node& node);
// Counts the score of each pair of query and key, and the weighted sums of the values. Masks do not count.
Expr attention(const ir::Graph& graph, const ir::Node& node);

}  // namespace npugraph::ops::operations
