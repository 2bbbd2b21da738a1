// SPDX-License-Identifier: Apache-2.0
// Graphs from text and values by name, for the tests of ir/.
#pragma once

#include <string>
#include <string_view>

#include <gtest/gtest.h>

#include "ir/graph.h"
#include "ir/text.h"
#include "ops/table.h"

namespace npugraph::ir {

// The graph with these statements.
inline Graph graph_of(std::string_view body) {
  return parse("npugraph.graph 1 @test {\n" + std::string(body) + "\n}", "test", ops::registry());
}

// The value of this name; the test fails if there is none.
inline ValueId value_named(const Graph& graph, std::string_view name) {
  for (ValueId id = 0; id < graph.num_values(); ++id) {
    if (graph.value(id).name == name) return id;
  }
  ADD_FAILURE() << "no value %" << name;
  return 0;
}

inline const Node& def_of(const Graph& graph, std::string_view name) {
  return graph.node(graph.value(value_named(graph, name)).def);
}

inline TensorType f32(std::vector<Expr> sizes, std::vector<Expr> strides) {
  return {DType::kF32, std::move(sizes), std::move(strides), {}};
}

}  // namespace npugraph::ir
