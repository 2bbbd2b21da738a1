// SPDX-License-Identifier: Apache-2.0
#include "lower/score.h"

#include "lower/contains.h"

namespace npugraph::lower {
namespace {

int64_t bytes_of(const ir::TensorType& type) {
  int64_t bytes = size_of(type.dtype);
  for (const Expr& size : type.sizes) bytes *= size.as_int().value_or(1);
  return bytes;
}

}  // namespace

int64_t bytes_between(const ir::Graph& graph, const ir::Node& node,
                      const std::function<bool(ir::NodeId)>& is_in_group) {
  int64_t bytes = 0;
  for (const ir::ValueId operand : ir::operands(node)) {
    const ir::NodeId def = graph.value(operand).def;
    if (def != ir::kNone && is_in_group(def)) bytes += bytes_of(graph.value(operand).tensor());
  }
  return bytes;
}

int64_t bytes_saved(const ir::Graph& graph, const ir::Uses& uses, const std::vector<ir::NodeId>& nodes,
                    const std::vector<ir::ValueId>& stored) {
  int64_t saved = 0;
  for (const ir::NodeId member : nodes) {
    for (const ir::ValueId result : graph.node(member).results) {
      if (result == ir::kNone) continue;
      const auto& users = uses.users[result];
      const auto readers =
          std::count_if(users.begin(), users.end(), [&](ir::NodeId user) { return contains(nodes, user); });
      saved += bytes_of(graph.value(result).tensor()) * (readers + (contains(stored, result) ? 0 : 1));
    }
  }
  return saved;
}

void sort_by_score(std::vector<std::pair<int, int64_t>>& scored) {
  std::stable_sort(scored.begin(), scored.end(), [](const auto& a, const auto& b) { return a.second > b.second; });
}

}  // namespace npugraph::lower
