// SPDX-License-Identifier: Apache-2.0
#include "passes/simplify/canonicalise.h"

#include "passes/rewrite.h"
#include "passes/simplify/view_rules.h"

namespace npugraph::passes {
namespace {

class Canonicaliser {
 public:
  explicit Canonicaliser(ir::Graph& graph)
      : graph_(graph),
        replacements_(graph),
        is_output_(graph.num_values(), false),
        is_constant_(graph.num_values(), false) {
    for (const ir::Constant& constant : graph.constants) is_constant_[constant.value] = true;
    for (const ir::Output& output : graph.outputs) {
      if (const auto* ref = std::get_if<TensorRef>(&output)) is_output_[ref->id] = true;
    }
  }

  int run() {
    int hits = 0;
    walk(graph_, replacements_, [&](ir::NodeId id) {
      ir::Node& node = graph_.node(id);
      hits += respell_view(graph_, node) || move_constant_last(node);
      hits += skip_inner_view(graph_, node);
      hits += replace(id, find_same_view(graph_, node));
    });
    return hits;
  }

 private:
  bool replace(ir::NodeId id, ir::ValueId by) {
    if (by == ir::kNone) return false;
    const ir::ValueId result = graph_.node(id).results[0];
    if (is_output_[result]) return false;
    replacements_.replace(result, by);
    graph_.erase(id);
    return true;
  }

  // The strides of the result follow the first operand, so the other one must have exactly the result's. If the types
  // differ, the place decides which operand is rounded (ops::Numbers).
  bool move_constant_last(ir::Node& node) const {
    const auto operands = exchangeable_operands(node);
    if (!operands || node.op->is(ir::Trait::kMutates)) return false;
    const auto [first, second] = *operands;
    if (!is_constant_[first] || is_constant_[second]) return false;
    const auto* type = std::get_if<ir::TensorType>(&graph_.value(second).type);
    const auto* result = std::get_if<ir::TensorType>(&graph_.value(node.results[0]).type);
    const auto* constant = std::get_if<ir::TensorType>(&graph_.value(first).type);
    if (!type || !result || !constant || type->dtype != constant->dtype || type->sizes != result->sizes ||
        type->strides != result->strides)
      return false;
    exchange_operands(node.args);
    return true;
  }

  ir::Graph& graph_;
  Replacements replacements_;
  std::vector<bool> is_output_;    // per value
  std::vector<bool> is_constant_;  // per value
};

}  // namespace

int canonicalise(ir::Graph& graph, PassContext&) { return Canonicaliser(graph).run(); }

}  // namespace npugraph::passes
