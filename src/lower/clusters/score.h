// SPDX-License-Identifier: Apache-2.0
// What running nodes together is worth: bytes that are neither stored nor loaded. Internal to lower/.
#pragma once

#include <functional>
#include <utility>
#include <vector>

#include "ir/graph.h"

namespace npugraph::lower {

// Of operands of `node` that nodes in a group compute: what is not loaded.
Expr bytes_between(const ir::Graph& graph, const ir::Node& node, const std::function<bool(ir::NodeId)>& is_in_group);

// Of a group of nodes that stores `stored`: all that its nodes, each by itself, would store or load besides.
Expr bytes_saved(const ir::Graph& graph, const ir::Uses& uses, const std::vector<ir::NodeId>& nodes,
                 const std::vector<ir::ValueId>& stored);

// What a symbolic size counts as where sizes are compared before any is known.
inline constexpr int64_t kUsualSize = 128;

// (what, bytes), those first that save most at usual sizes; in the order given where they save the same.
void sort_by_score(std::vector<std::pair<int, Expr>>& scored);

}  // namespace npugraph::lower
