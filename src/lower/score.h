// SPDX-License-Identifier: Apache-2.0
// What running nodes together is worth: bytes that are neither stored nor loaded; symbolic sizes count as 1. Internal to lower/.
#pragma once

#include <functional>
#include <utility>
#include <vector>

#include "ir/graph.h"

namespace npugraph::lower {

// Of operands of `node` that nodes in a group compute: what is not loaded.
int64_t bytes_between(const ir::Graph& graph, const ir::Node& node, const std::function<bool(ir::NodeId)>& is_in_group);

// Of a group of nodes that stores `stored`: all that its nodes, each by itself, would store or load besides.
int64_t bytes_saved(const ir::Graph& graph, const ir::Uses& uses, const std::vector<ir::NodeId>& nodes,
                    const std::vector<ir::ValueId>& stored);

// (what, bytes), those first that save most; in the order given where they save the same.
void sort_by_score(std::vector<std::pair<int, int64_t>>& scored);

}  // namespace npugraph::lower
