// SPDX-License-Identifier: Apache-2.0
#include "passes/memory/hoist_copies.h"

#include <algorithm>
#include <utility>

#include "ops/operators.h"
#include "passes/epilogues.h"
#include "passes/memory_trace.h"
#include "passes/rewrite.h"

namespace npugraph::passes {
namespace {

bool has_defined_symbols(const ir::Graph& graph) {
  return std::any_of(graph.order().begin(), graph.order().end(),
                     [&](ir::NodeId id) { return !graph.node(id).dead && !graph.node(id).defines.empty(); });
}

// A view with no operand but its base can be anywhere after the base.
bool is_movable_view(const ir::Node& node) { return is_free_view(node) && ir::operands(node).size() == 1; }

// Position of the node after which `value` is available. With `can_move_views`, views move along with their user.
int32_t ready_position(const MemoryTrace& trace, const ir::Graph& graph, ir::ValueId value, bool can_move_views) {
  ir::NodeId def = graph.value(value).def;
  while (def != ir::kNone && can_move_views && is_movable_view(graph.node(def))) {
    def = graph.value(ir::operands(graph.node(def)).front()).def;
  }
  return def == ir::kNone ? MemoryTrace::kStart : trace.position(def);
}

// Position of the last node that must stay before the copy.
int32_t find_anchor(const MemoryTrace& trace, const ir::Graph& graph, ir::NodeId copy, bool can_move_views) {
  const ir::ValueId destination = aten::copy_::self(graph.node(copy));
  const ir::ValueId source = aten::copy_::src(graph.node(copy));
  const int32_t here = trace.position(copy);
  return std::max({ready_position(trace, graph, destination, can_move_views),
                   ready_position(trace, graph, source, can_move_views),
                   trace.last_access(source, here, MemoryTrace::Kind::kWrite),
                   trace.last_access(destination, here, MemoryTrace::Kind::kAny)});
}

// Builds the new order: appends nodes, each after the views that it needs and that are not in the order yet.
class Emitter {
 public:
  explicit Emitter(const ir::Graph& graph) : graph_(graph), is_put_(graph.num_nodes(), false) {}

  void put(ir::NodeId id) {
    if (is_put_[id]) return;
    is_put_[id] = true;
    for (const ir::ValueId operand : ir::operands(graph_.node(id))) {
      const ir::NodeId def = graph_.value(operand).def;
      if (def != ir::kNone && is_movable_view(graph_.node(def))) put(def);
    }
    order_.push_back(id);
  }

  std::vector<ir::NodeId> take() { return std::move(order_); }

 private:
  const ir::Graph& graph_;
  std::vector<bool> is_put_;
  std::vector<ir::NodeId> order_;
};

}  // namespace

int hoist_copies(ir::Graph& graph, PassContext& context) {
  const std::vector<ir::NodeId> copies = take_epilogues(graph, context);
  if (copies.empty()) return 0;
  graph.compact();
  const MemoryTrace trace(graph);
  const auto& order = graph.order();
  const bool can_move_views = !has_defined_symbols(graph);
  std::vector<bool> stays(graph.num_nodes(), true);
  for (const ir::NodeId copy : copies) stays[copy] = false;
  std::vector<int32_t> others;  // positions of nodes that are neither such copies nor views
  for (const ir::NodeId id : order) {
    if (stays[id] && !is_free_view(graph.node(id))) others.push_back(trace.position(id));
  }
  std::vector<std::vector<ir::NodeId>> behind(order.size() + 1);  // by anchor + 1; entry 0 is the start
  int hits = 0;
  for (const ir::NodeId copy : copies) {
    const int32_t anchor = find_anchor(trace, graph, copy, can_move_views);
    const auto passed = std::upper_bound(others.begin(), others.end(), anchor);
    if (passed == others.end() || *passed > trace.position(copy)) continue;
    behind[anchor + 1].push_back(copy);
    ++hits;
  }
  if (hits == 0) return 0;
  Emitter emitter(graph);
  for (size_t i = 0; i <= order.size(); ++i) {
    if (i > 0) emitter.put(order[i - 1]);
    for (const ir::NodeId copy : behind[i]) emitter.put(copy);
  }
  graph.reorder(emitter.take());
  return hits;
}

}  // namespace npugraph::passes
