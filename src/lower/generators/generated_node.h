// SPDX-License-Identifier: Apache-2.0
// Nodes that become generated tasks by themselves.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "ir/graph.h"
#include "loop/convolution.h"
#include "program/program.h"

namespace npugraph::lower {

struct GeneratedNode {
  program::TaskKind kind;
  std::string name;  // of the task
  std::string text;  // of what is generated: codegen/ says what it means
  // Operands in the order in which the code takes them: first these.
  std::vector<ir::ValueId> reads;
  std::vector<ir::ValueId> writes;  // results
};

// Nothing for other nodes, and where code cannot be generated. Each has its rules in a file of its own.
std::optional<GeneratedNode> choose_attention(const ir::Graph& graph, const ir::Uses& uses, const ir::Node& node);
std::optional<GeneratedNode> choose_convolution(const ir::Graph& graph, const ir::Node& node);
// What choose_convolution takes, without the bias; nothing for others. Printed, it stands in front of the text of an epilogue.
std::optional<loop::Convolution> find_convolution(const ir::Graph& graph, const ir::Node& node);
std::optional<GeneratedNode> choose_quantised_gather(const ir::Graph& graph, const ir::Node& node);

}  // namespace npugraph::lower
