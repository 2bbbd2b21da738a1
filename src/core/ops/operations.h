// SPDX-License-Identifier: Apache-2.0
// The number of arithmetic operations of a node, for reports that compare it with the peak of a machine.
#pragma once

#include "ir/graph.h"

namespace npugraph::ops {

// Two for each multiply-add of products, convolutions and attention; one for each element that an elementwise operator
// computes or a reduction combines. 0 for operators that only move elements, and for all others.
Expr count_operations(const ir::Graph& graph, const ir::Node& node);

}  // namespace npugraph::ops
