// SPDX-License-Identifier: Apache-2.0
#include "passes/detach_creations.h"

#include <unordered_map>
#include <utility>

#include "ops/table.h"
#include "passes/rewrite.h"

namespace npugraph::passes {
namespace {

// What makes the same of sizes.
const ir::Op* detached_form(const ir::Op* op) {
  static const std::unordered_map<const ir::Op*, const ir::Op*> table = {
      {row("aten.zeros_like"), row("aten.zeros")}, {row("aten.new_zeros"), row("aten.zeros")},
      {row("aten.ones_like"), row("aten.ones")},   {row("aten.new_ones"), row("aten.ones")},
      {row("aten.full_like"), row("aten.full")},   {row("aten.new_full"), row("aten.full")},
  };
  const auto found = table.find(op);
  return found == table.end() ? nullptr : found->second;
}

bool detach(ir::Graph& graph, ir::Node& node) {
  const ir::Op* op = detached_form(node.op);
  const auto* type = op == nullptr ? nullptr : std::get_if<ir::TensorType>(&graph.value(node.results[0]).type);
  if (type == nullptr) return false;
  ir::Node detached{.op = op};
  for (const ir::SchemaArg& arg : op->schema.args) detached.args.push_back(arg.default_value);
  argument(detached, "size") = type->sizes;
  argument(detached, "dtype") = type->dtype;
  argument(detached, "device") = type->device;
  if (find_argument(*op, "fill_value") >= 0) argument(detached, "fill_value") = argument(node, "fill_value");
  const auto types = ops::infer_types(graph, *op, detached.args);
  if (!types || types->front() != graph.value(node.results[0]).type) return false;
  node.op = op;
  node.args = std::move(detached.args);
  return true;
}

}  // namespace

int detach_creations(ir::Graph& graph, PassContext&) {
  int hits = 0;
  for (const ir::NodeId id : graph.order()) {
    if (!graph.node(id).dead) hits += detach(graph, graph.node(id)) ? 1 : 0;
  }
  return hits;
}

}  // namespace npugraph::passes
