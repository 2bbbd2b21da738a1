// SPDX-License-Identifier: Apache-2.0
// Declared result types against the rules of the table: what the verifier in ir/ cannot know.
#pragma once

#include <string>
#include <vector>

#include "ir/graph.h"

namespace npugraph::ops {

// Returns an empty string, or the first node whose result types or view offsets contradict its row. Nodes without a rule, and
// nodes for which the rule cannot tell, pass. Requires a graph that ir::verify accepts.
std::string verify_types(const ir::Graph& graph);

// For each node, in order, "<operator>: " and how its declared types compare with the rule of its row: "agrees" where sizes and
// strides are equal; "open" where the rule cannot tell; "no rule"; "differs: ..." or "raises: ..." otherwise.
std::vector<std::string> compare_types(const ir::Graph& graph);

}  // namespace npugraph::ops
