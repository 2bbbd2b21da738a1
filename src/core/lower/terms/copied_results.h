// SPDX-License-Identifier: Apache-2.0
// Which results generated code only moves: reports count their bytes as copied.
#pragma once

#include <vector>

#include "ir/graph.h"

namespace npugraph::lower {

// Whether the data that `nodes`, which run as one task, store for value `id` was in memory before them. False for a
// value that they compute and rearrange before they store it. `id` is a result of one of them, or an operand that one
// of them writes.
bool is_copied(const ir::Graph& graph, ir::ValueId id, const std::vector<ir::NodeId>& nodes);

}  // namespace npugraph::lower
