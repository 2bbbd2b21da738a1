// SPDX-License-Identifier: Apache-2.0
// Graph -> Program without a plan: each value gets a place in a buffer, and each node that is not a view
// becomes a task.
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
  bool join = true;       // the code of a task may be of several nodes
  // Operands of concatenations are computed in place where possible; otherwise one task copies all of them.
  bool place_parts = true;
  // A node that nothing can run becomes a task of the host instead of an error, so that a caller can name them all.
  bool keep_rest = false;
};

// Facts about a task that only lowering knows.
struct TaskNote {
  ir::NodeId node = ir::kNone;  // node that the task runs; for a cluster, its anchor
  Expr saved_bytes;             // score of its cluster (lower/clusters/cluster.h)
  Expr operations;              // operations of its nodes (ops/node_facts.h)
  bool may_fail = false;        // one of its nodes may throw
};

// Two operators that could have run in one task but do not (lower/clusters/cluster.h).
struct LeftApart {
  std::string producer, consumer, reason;
  std::string origin, source;  // FX node and source line of the consumer
  Expr bytes;
};

struct Lowered {
  program::Program program;
  std::vector<TaskNote> notes;  // per task
  std::vector<LeftApart> left_apart;
};

// Views become part of operands. Clusters, and some nodes by themselves (lower/generated/generated_node.h), become
// generated code. Any other node becomes a precompiled kernel if one fits and is faster than a call of the host's
// operator, else the out-variant of its ATen operator writing into planned memory, else the operator itself with its
// results adopted (heap). Where the host has no operator, a loop of its own or a copy that code writes into stands in
// for it, however slow. Task::reason says why a task is not generated code. Requires a verified Graph whose opaque
// nodes have callables. UserError for a node that the host cannot run.
Lowered lower(const ir::Graph& graph, const OperatorCatalog& catalog, const LowerOptions& options);

}  // namespace npugraph::lower
