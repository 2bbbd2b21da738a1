// SPDX-License-Identifier: Apache-2.0
#include "lower/clusters/score.h"

#include <algorithm>
#include <functional>

#include "base/error.h"
#include "lower/contains.h"

namespace npugraph::lower {
namespace {

Expr bytes_of(const ir::TensorType& type) {
  Expr bytes = size_of(type.dtype);
  for (const Expr& size : type.sizes) bytes = bytes * size;
  return bytes;
}

}  // namespace

int64_t at_usual_sizes(const Expr& e) {
  if (const auto known = e.as_int()) return *known;
  try {
    return evaluate(e, [](const std::string&) { return Scalar::of_int(kUsualSize); }).as_int();
  } catch (const UserError&) {
    return 0;
  }
}

Expr bytes_between(const ir::Graph& graph, const ir::Node& node, const std::function<bool(ir::NodeId)>& is_in_group) {
  Expr bytes;
  for (const ir::ValueId operand : ir::operands(node)) {
    const ir::NodeId def = graph.value(operand).def;
    if (def != ir::kNone && is_in_group(def)) bytes = bytes + bytes_of(graph.value(operand).tensor());
  }
  return bytes;
}

Expr bytes_saved(const ir::Graph& graph, const ir::Uses& uses, const std::vector<ir::NodeId>& nodes,
                 const std::vector<ir::ValueId>& stored) {
  Expr saved;
  for (const ir::NodeId member : nodes) {
    for (const ir::ValueId result : graph.node(member).results) {
      if (result == ir::kNone) continue;
      const auto& users = uses.users[result];
      const auto readers =
          std::count_if(users.begin(), users.end(), [&](ir::NodeId user) { return contains(nodes, user); });
      saved = saved + bytes_of(graph.value(result).tensor()) * Expr(readers + (contains(stored, result) ? 0 : 1));
    }
  }
  return saved;
}

void sort_by_score(std::vector<std::pair<int, Expr>>& scored) {
  std::ranges::stable_sort(scored, std::greater(), [](const auto& row) { return at_usual_sizes(row.second); });
}

}  // namespace npugraph::lower
