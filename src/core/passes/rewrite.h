// SPDX-License-Identifier: Apache-2.0
// Steps that several passes share: properties of nodes, their arguments, inserting nodes and replacing values.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "ir/graph.h"
#include "passes/pass.h"

namespace npugraph::passes {

// Whether the node is a view whose place in its base is known: it costs nothing and reads nothing.
inline bool is_free_view(const ir::Node& node) {
  return node.op->is(ir::Trait::kView) && !node.results.empty() && node.views.size() == node.results.size();
}

// Whether the node has no effect but its results, and gives the same results when it runs again.
inline bool is_pure(const ir::Op& op) {
  constexpr ir::Traits kImpure = ir::Trait::kRandom | ir::Trait::kSideEffect | ir::Trait::kMutates | ir::Trait::kOpaque;
  return (op.traits & kImpure) == 0;
}

// Whether the node copies its operand into contiguous memory.
bool makes_contiguous(const ir::Node& node);

// Whether the operator has no factor `alpha` for an operand, or `alpha` is 1.
bool has_unit_alpha(const ir::Node& node);

// The two tensors that a commutative node takes in either order: its first two arguments, whatever their names. nullopt
// if the node is not commutative, or one of them is a number.
std::optional<std::pair<ir::ValueId, ir::ValueId>> exchangeable_operands(const ir::Node& node);
// Exchanges the first two arguments of such a node.
void exchange_operands(std::vector<Attr>& args);

// A node of `op` with default arguments; None for arguments without a default.
ir::Node with_defaults(const ir::Op& op);

// Arguments of `op`: those of `node` with the same name, and defaults for the others. nullopt if `node` has an argument
// that `op` lacks and whose value is not the default, or lacks one that `op` requires.
std::optional<std::vector<Attr>> matching_arguments(const ir::Op& op, const ir::Node& node);

// Adds a node before `before`, in its section and with its origin, and returns its one result, which is no view.
ir::ValueId insert_before(ir::Graph& graph, ir::NodeId before, const ir::Op& op, std::vector<Attr> args,
                          const ir::TensorType& made, std::string name);
// The same, but the operator's rules infer the type and, for a view, the place of the result. If they cannot, returns
// kNone and adds nothing.
ir::ValueId insert_before(ir::Graph& graph, ir::NodeId before, const ir::Op& op, std::vector<Attr> args,
                          std::string name);

// The values that a pass replaces while it walks the graph. Applied to operands as the walk meets them, and to the
// whole graph at the end.
class Replacements {
 public:
  explicit Replacements(ir::Graph& graph) : graph_(graph), by_(graph.num_values(), ir::kNone) {}

  // Every use of `from` becomes a use of `to`. The types must agree.
  void replace(ir::ValueId from, ir::ValueId to);
  // The value that currently stands for `id`.
  ir::ValueId resolve(ir::ValueId id) const;
  void rewrite_operands(ir::Node& node) const;
  // Rewrites every node and output. Call it once, when the walk is over.
  void apply();

 private:
  ir::Graph& graph_;
  std::vector<ir::ValueId> by_;
  bool any_ = false;
};

// Calls fn(id) for each live node in program order, its operands replaced, and finally applies the replacements. Nodes
// that `fn` adds are not visited.
template <typename Fn>
void walk(ir::Graph& graph, Replacements& replacements, Fn fn) {
  for (const ir::NodeId id : std::vector<ir::NodeId>(graph.order())) {
    if (graph.node(id).dead) continue;
    replacements.rewrite_operands(graph.node(id));
    fn(id);
  }
  replacements.apply();
}

// The same for a pass whose `rewrite(id)` says whether it rewrote the node. Remarks `message` on each such node, and
// returns their number.
template <typename Fn>
int rewrite_each(ir::Graph& graph, Replacements& replacements, PassContext& context, const char* message, Fn rewrite) {
  int hits = 0;
  walk(graph, replacements, [&](ir::NodeId id) {
    if (!rewrite(id)) return;
    context.remark(graph.node(id), message);
    ++hits;
  });
  return hits;
}

// Whether a tensor of `sizes` broadcasts to `to`: each size, from the last one on, is that of `to`, or 1.
bool broadcasts_to(std::span<const Expr> sizes, std::span<const Expr> to);

}  // namespace npugraph::passes
