// SPDX-License-Identifier: Apache-2.0
// Compares declared result types with the rules of the table, which the verifier in ir/ does not know.
#pragma once

#include <string>
#include <vector>

#include "ir/graph.h"

namespace npugraph::ops {

// Returns an empty string, or a message on the first node whose result types or view offsets contradict its row. Nodes
// without a rule, and nodes for which the rule leaves the answer open, pass. Requires a graph that ir::verify accepts.
std::string verify_types(const ir::Graph& graph);

// For each node, in order, "<operator>: " and how its declared types compare with the rule of its row: "agrees" if
// sizes and strides are equal; "open" if the rule leaves the answer open; "no rule"; else "differs: ..." or
// "raises: ...".
std::vector<std::string> compare_types(const ir::Graph& graph);

}  // namespace npugraph::ops
