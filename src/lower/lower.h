// SPDX-License-Identifier: Apache-2.0
// Graph -> Program with unassigned buffers: each value finds its place in a buffer, each node that is not a view becomes a task.
#pragma once

#include "ir/graph.h"
#include "lower/catalog.h"
#include "program/program.h"

namespace npugraph::lower {

struct LowerOptions {
  bool generate = false;  // clusters become loop nests; otherwise every node is a task of its own
};

// Views vanish into operands. Clusters become loop nests (kLoop). Any other node becomes a precompiled kernel where one fits and is faster than a call of the host's
// operator, else the out-variant of its ATen operator writing into planned memory, else the operator itself with its results
// adopted (heap); Task::reason says why it is not the first. Requires a verified Graph whose opaque nodes have callables.
// UserError for a node that the host cannot run.
program::Program lower(const ir::Graph& graph, const OperatorCatalog& catalog, LowerOptions options);

}  // namespace npugraph::lower
