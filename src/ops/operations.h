// SPDX-License-Identifier: Apache-2.0
// How much arithmetic a node is, for people who compare it with what a machine can do.
#pragma once

#include "ir/graph.h"

namespace npugraph::ops {

// Two for each multiply-add of products, convolutions and attention; one for each element that an elementwise operator computes
// or a reduction combines. 0 for what only moves elements, and for operators without a rule in their rows.
Expr count_operations(const ir::Graph& graph, const ir::Node& node);

}  // namespace npugraph::ops
