// SPDX-License-Identifier: Apache-2.0
// Facts about nodes that follow from their rows: the number of arithmetic operations, for reports that compare it with
// the peak of a machine, and whether results are the same in any memory layout.
#pragma once

#include "ir/graph.h"

namespace npugraph::ops {

// Two for each multiply-add of products, convolutions and attention; one for each element that an elementwise operator
// computes or a reduction combines. 0 for operators that only move elements, and for all others.
Expr count_operations(const ir::Graph& graph, const ir::Node& node);

// Whether the node rounds each element correctly, or does not round at all, and has real operands. Its results then do
// not depend on strides, alignment or how many elements are computed at once. Most elementwise operators of torch are
// not exact: full vectors and the remainder after the last one go through different approximations (sigmoid, silu,
// pow), and some assume that their result is dense (gelu). Exact operators are also cheap: computing an element costs
// no more than moving it.
bool is_exact(const ir::Graph& graph, const ir::Node& node);

}  // namespace npugraph::ops

namespace npugraph::ops::operations {

// Rules for the number of arithmetic operations, which rows name as `.operations`. The operands and results of the node
// are strided tensors or absent. Internal to ops/.

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
