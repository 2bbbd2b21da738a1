// SPDX-License-Identifier: Apache-2.0
// What generated code only moves: the bytes that a report counts as copied.
#pragma once

#include <vector>

#include "ir/graph.h"

namespace npugraph::lower {

// Whether what `nodes`, which run as one, store for value `id` was in memory before them. A value that they compute and
// rearrange before it is stored was not. `id` is a result of one of them, or what the last one writes.
bool is_moved(const ir::Graph& graph, ir::ValueId id, const std::vector<ir::NodeId>& nodes);

}  // namespace npugraph::lower
