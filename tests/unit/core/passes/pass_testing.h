// SPDX-License-Identifier: Apache-2.0
// Graphs for the tests of passes, from text.
#pragma once

#include <string>
#include <string_view>

#include "ir/graph.h"
#include "ir/text.h"
#include "ops/table.h"

namespace npugraph::passes {

// The graph with these inputs, nodes and outputs, in text form.
inline ir::Graph graph_of(std::string_view body) {
  return ir::parse("npugraph.graph 1 @test {\n" + std::string(body) + "\n}", "test", ops::registry());
}

// Names of the operators in program order, each followed by a blank.
inline std::string operators_of(const ir::Graph& graph) {
  std::string names;
  for (const ir::NodeId id : graph.order()) {
    if (!graph.node(id).dead) names += graph.node(id).op->name + " ";
  }
  return names;
}

}  // namespace npugraph::passes
