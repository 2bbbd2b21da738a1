// SPDX-License-Identifier: Apache-2.0
// The gain of running nodes together: bytes that are neither stored nor loaded. Internal to lower/.
#pragma once

#include <functional>
#include <utility>
#include <vector>

#include "ir/graph.h"

namespace npugraph::lower {

// Bytes of the operands of `node` that nodes of a group compute, and that are then not loaded.
Expr bytes_between(const ir::Graph& graph, const ir::Node& node, const std::function<bool(ir::NodeId)>& is_in_group);

// Bytes that the nodes of a group would store or load if each ran by itself, beyond those of the group,
// which stores `stored`.
Expr bytes_saved(const ir::Graph& graph, const ir::Uses& uses, const std::vector<ir::NodeId>& nodes,
                 const std::vector<ir::ValueId>& stored);

// The value of a symbolic size in comparisons before sizes are known.
inline constexpr int64_t kUsualSize = 128;
// The value of an expression of sizes then; 0 if these sizes cannot occur together.
int64_t at_usual_sizes(const Expr& e);

// Sorts pairs (id, bytes saved) by their bytes at usual sizes, the largest first. Stable.
void sort_by_score(std::vector<std::pair<int, Expr>>& scored);

}  // namespace npugraph::lower
