// SPDX-License-Identifier: Apache-2.0
// Nodes that become generated tasks by themselves.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "ir/graph.h"
#include "loop/task_parameters.h"
#include "program/program.h"

namespace npugraph::lower {

struct GeneratedNode {
  program::TaskKind kind;
  std::string name;  // name of the task
  std::string text;  // text form of the generated code; codegen/ says what it means
  // Operands in the order in which the code takes them: `reads`, then `writes`.
  std::vector<ir::ValueId> reads;
  std::vector<ir::ValueId> writes;  // results
};

// Whether generated products, attention and convolutions take floats of this type on this host: f32, bf16 and, if the
// processor converts it, f16.
bool is_generated_float(DType dtype);

// Each returns nullopt for other nodes, and for nodes that cannot be generated. The rules of each have a file
// of their own.
std::optional<GeneratedNode> choose_attention(const ir::Graph& graph, const ir::Uses& uses, const ir::Node& node);
std::optional<GeneratedNode> choose_convolution(const ir::Graph& graph, const ir::Node& node);
// The convolution that choose_convolution takes, without the bias; nullopt for other nodes. Its printed form stands in
// front of the text of an epilogue.
std::optional<loop::Convolution> find_convolution(const ir::Graph& graph, const ir::Node& node);
std::optional<GeneratedNode> choose_quantised_gather(const ir::Graph& graph, const ir::Node& node);

}  // namespace npugraph::lower
