// SPDX-License-Identifier: Apache-2.0
#include "passes/memory/detach_creations.h"

#include <utility>

#include "ops/operators.h"
#include "ops/table.h"
#include "passes/rewrite.h"

namespace npugraph::passes {
namespace {

// The operator that makes the same tensor from sizes alone, or null.
const ir::Op* detached_form(const ir::Op& op) {
  if (ops::is_any<aten::zeros_like, aten::new_zeros>(op)) return &aten::zeros::op();
  if (ops::is_any<aten::ones_like, aten::new_ones>(op)) return &aten::ones::op();
  if (ops::is_any<aten::full_like, aten::new_full>(op)) return &aten::full::op();
  return nullptr;
}

bool detach(ir::Graph& graph, ir::Node& node) {
  const ir::Op* op = detached_form(*node.op);
  const auto* type = op == nullptr ? nullptr : std::get_if<ir::TensorType>(&graph.value(node.results[0]).type);
  if (type == nullptr) return false;
  ir::Node detached = with_defaults(*op);
  arg::size(detached) = type->sizes;
  arg::dtype(detached) = type->dtype;
  arg::device(detached) = type->device;
  if (aten::full::is(*op)) aten::full::fill_value.attr(detached) = arg::fill_value(node);
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
