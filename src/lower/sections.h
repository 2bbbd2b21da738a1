// SPDX-License-Identifier: Apache-2.0
// Sections of the graph become streams of tasks, what these wait for, and the limits of their workers.
#pragma once

#include <span>

#include "ir/graph.h"
#include "program/program.h"

namespace npugraph::lower {

// `nodes` has the node of each task, or kNone, and Task::stream is its section: it becomes the section's stream, limits and waits are
// filled in. Tasks of random operators, and of those that others can notice (but for records of events), also wait for the one
// before them.
void resolve_sections(program::Program& program, const ir::Graph& graph, std::span<const ir::NodeId> nodes);

}  // namespace npugraph::lower
