// SPDX-License-Identifier: Apache-2.0
// How much arithmetic a node is, for people who compare it with what a machine can do. Internal to lower/.
#pragma once

#include "ir/graph.h"

namespace npugraph::lower {

// Two for each multiply-add of products, convolutions and attention; one for each element that an elementwise operator computes
// or a reduction combines. 0 for what only moves elements, and for operators of which nobody wrote it down.
Expr operations(const ir::Graph& graph, const ir::Node& node);

}  // namespace npugraph::lower
