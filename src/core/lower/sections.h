// SPDX-License-Identifier: Apache-2.0
// Turns the sections of the graph into streams, waits and worker limits of tasks.
#pragma once

#include <span>

#include "ir/graph.h"
#include "program/program.h"

namespace npugraph::lower {

// Requires in `nodes` the node of each task, or kNone, and in Task::stream its section. Replaces that by the section's
// stream, and fills in limits and waits. Tasks of random, opaque and side-effecting operators, except records of
// events, also wait for the previous such task.
void resolve_sections(program::Program& program, const ir::Graph& graph, std::span<const ir::NodeId> nodes);

}  // namespace npugraph::lower
