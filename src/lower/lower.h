// SPDX-License-Identifier: Apache-2.0
// Graph -> Program with unassigned buffers: each value finds its place in a buffer, each node that is not a view becomes a task.
#pragma once

#include <string>
#include <vector>

#include "ir/graph.h"
#include "lower/catalog.h"
#include "lower/clusters/decisions.h"
#include "program/program.h"

namespace npugraph::lower {

struct LowerOptions {
  bool generate = false;  // clusters become generated code; otherwise every node is a task of its own
  bool place_parts =
      true;  // what stands in a concatenation is computed there; otherwise it is a task that copies all of it
  Refusals refused;
};

// What only lowering knows of a task.
struct TaskNote {
  ir::NodeId node = ir::kNone;  // that it runs for; of a generated one, where its cluster stands
  Expr saved_bytes;             // score of its cluster (lower/clusters/cluster.h)
  Expr operations;              // of its nodes (ops/operations.h)
};

// Two operators that could have run together and do not (lower/clusters/cluster.h).
struct LeftApart {
  std::string producer, consumer, reason;
  std::string origin, source;  // FX node of the consumer, and its line
  Expr bytes;
};

struct Lowered {
  program::Program program;
  std::vector<TaskNote> notes;  // per task
  std::vector<LeftApart> left_apart;
};

// Views vanish into operands. Clusters become generated code (kLoop, kMatmul). Any other node becomes a precompiled kernel
// where one fits and is faster than a call of the host's operator, else the out-variant of its ATen operator writing into
// planned memory, else the operator itself with its results adopted (heap). So do the nodes of a cluster that cannot be
// written as a kernel, and of one with a node in `refused`. Task::reason says why it is not the first. Requires a verified
// Graph whose opaque nodes have callables. UserError for a node that the host cannot run.
Lowered lower(const ir::Graph& graph, const OperatorCatalog& catalog, LowerOptions options);

}  // namespace npugraph::lower
