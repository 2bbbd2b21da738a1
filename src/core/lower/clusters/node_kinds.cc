// SPDX-License-Identifier: Apache-2.0
#include "lower/clusters/node_kinds.h"

#include "lower/arguments.h"

namespace npugraph::lower {

NodeKinds::NodeKinds(const ir::Graph& graph, const OperatorCatalog* host)
    : graph_(graph), kinds_(graph.num_nodes()), walks_(graph.num_nodes()) {
  for (const ir::NodeId id : graph.order()) {
    const ir::Node& node = graph.node(id);
    if (node.dead || (is_left_to_host(graph, node) && (host == nullptr || host->can_run(*node.op)))) continue;
    kinds_[id] = term_kind(graph, node);
    if (is(id, TermKind::kRows)) walks_[id] = walk_of(graph, node);
  }
}

bool NodeKinds::reads_by_place(ir::NodeId user, ir::ValueId value) const {
  const ir::Node& node = graph_.node(user);
  if (!kinds_[user] || reads_elsewhere(user)) return false;
  if (is(user, TermKind::kConcatenation)) return true;
  if (is(user, TermKind::kScatter) && (self_of(node) == value || is_index_operand(node, value))) return false;
  const auto space = space_of(graph_, node);
  const size_t rank = graph_.value(value).tensor().sizes.size();
  return rank == space->size() || (rank == 0 && space->size() == 1 && space->front().is_int(1));
}

}  // namespace npugraph::lower
