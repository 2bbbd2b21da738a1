// SPDX-License-Identifier: Apache-2.0
#include "lower/terms/copied_results.h"

#include <algorithm>

#include "lower/contains.h"

namespace npugraph::lower {
namespace {

using ir::NodeId, ir::ValueId;

class Moved {
 public:
  Moved(const ir::Graph& graph, const std::vector<NodeId>& nodes) : graph_(graph), nodes_(nodes) {}

  // Whether a node only moves data that is in memory before any of the nodes runs.
  bool moves(const ir::Node& node) const {
    if (!node.op->is(ir::Trait::kCopyLike)) return false;
    const std::vector<ValueId> written = ir::written_operands(node);
    return std::ranges::any_of(ir::operands(node), [&](ValueId id) {
      if (contains(written, id)) return false;
      const auto& sizes = graph_.value(id).tensor().sizes;
      const bool is_empty = std::ranges::any_of(sizes, [](const Expr& size) { return size.is_int(0); });
      return !is_empty && is_in_memory(id);
    });
  }

 private:
  bool is_in_memory(ValueId id) const {
    const NodeId def = graph_.value(id).def;
    if (def == ir::kNone) return true;
    const ir::Node& node = graph_.node(def);
    if (!node.views.empty()) return is_in_memory(ir::operands(node).front());
    return !contains(nodes_, def) || moves(node);
  }

  const ir::Graph& graph_;
  const std::vector<NodeId>& nodes_;
};

}  // namespace

bool is_copied(const ir::Graph& graph, ValueId id, const std::vector<NodeId>& nodes) {
  const NodeId def = graph.value(id).def;
  const auto writer = std::ranges::find_if(
      nodes, [&](NodeId node) { return node == def || contains(ir::written_operands(graph.node(node)), id); });
  return Moved(graph, nodes).moves(graph.node(writer == nodes.end() ? nodes.back() : *writer));
}

}  // namespace npugraph::lower
