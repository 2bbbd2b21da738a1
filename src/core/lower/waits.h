// SPDX-License-Identifier: Apache-2.0
// What tasks wait for: the sections of the graph, which become streams, waits and worker limits of tasks, and
// collectives.
#pragma once

#include <span>
#include <vector>

#include "ir/graph.h"
#include "program/program.h"

namespace npugraph::lower {

// Requires in `nodes` the node of each task, or kNone, and in Task::stream its section. Replaces that by the section's
// stream, and fills in limits and waits. Tasks of random, opaque and side-effecting operators, except records of
// events, also wait for the previous such task.
void resolve_sections(program::Program& program, const ir::Graph& graph, std::span<const ir::NodeId> nodes);

// Collectives between processes: one task begins a collective at the place of its node, and another one waits for it
// where its results are first needed. The tasks in between run at the same time as the collective.

// The task that waits for the collective that `begin` begins. It reads the last operand of `begin`, which stands for
// the running collective, and touches all others, so that their buffers live until then.
program::Task wait_for(const program::Task& begin);

// Wait tasks that have no place in the Program yet.
class Waits {
 public:
  void add(program::Task wait) { waits_.push_back(std::move(wait)); }
  // Removes and returns the waits that must stand before `next`: those of collectives whose results it touches or whose
  // operands it writes. Returns all waits if `next` writes inputs, calls Python or has side effects, because an error
  // of a collective must come before these.
  std::vector<program::Task> due(const program::Program& program, const program::Task& next);
  std::vector<program::Task> rest() { return std::move(waits_); }

 private:
  std::vector<program::Task> waits_;
};

}  // namespace npugraph::lower
