// SPDX-License-Identifier: Apache-2.0
#include "passes/canonicalise.h"

#include <algorithm>
#include <bit>
#include <unordered_map>

#include "passes/epilogues.h"
#include "passes/memory_trace.h"
#include "passes/rewrite.h"
#include "passes/view_rules.h"

namespace npugraph::passes {
namespace {

bool is_one(const Scalar& s) { return s.as_float() == 1.0; }
// -0.0 is told apart: x - (-0.0) makes 0.0 of -0.0.
bool is_zero(const Scalar& s) { return s.kind == ScalarKind::kFloat ? std::bit_cast<int64_t>(s.f) == 0 : s.i == 0; }

// A scalar that, as the second operand of an operator, leaves the first as it is.
struct Neutral {
  bool (*is_neutral)(const Scalar&);
  bool only_integers;
};

const Neutral* find_neutral(const ir::Op* op) {
  static const std::unordered_map<const ir::Op*, Neutral> table = {
      {row("aten.mul.Tensor"), {is_one, false}},  {row("aten.mul.Scalar"), {is_one, false}},
      {row("aten.div.Tensor"), {is_one, false}},  {row("aten.div.Scalar"), {is_one, false}},
      {row("aten.sub.Tensor"), {is_zero, false}}, {row("aten.sub.Scalar"), {is_zero, false}},
      {row("aten.add.Tensor"), {is_zero, true}},  {row("aten.add.Scalar"), {is_zero, true}},
  };
  const auto found = table.find(op);
  return found == table.end() ? nullptr : &found->second;
}

bool has_unit_alpha(const ir::Node& node) {
  const int32_t alpha = find_argument(*node.op, "alpha");
  return alpha < 0 || as_int(node.args[alpha]) == 1;
}

class Canonicaliser {
 public:
  Canonicaliser(ir::Graph& graph, const PassContext& context)
      : graph_(graph),
        trace_(graph),
        epilogue_sources_(graph, trace_, context),
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
      hits += replace(id, find_same_view(graph_, node)) || replace(id, find_unchanged_operand(id));
    });
    return hits;
  }

 private:
  // The operand that an arithmetic node or a concatenation gives back, when its result may be that memory.
  ir::ValueId find_unchanged_operand(ir::NodeId id) const {
    const ir::Node& node = graph_.node(id);
    const ir::ValueId operand =
        node.op == row("aten.cat") ? only_operand_with_elements(node) : unchanged_by_scalar(node);
    if (operand == ir::kNone || graph_.value(operand).type != graph_.value(node.results[0]).type) return ir::kNone;
    if (epilogue_sources_.would_become(node.results[0], operand)) return ir::kNone;
    return can_share(trace_, operand, node.results[0], trace_.position(id)) ? operand : ir::kNone;
  }

  ir::ValueId unchanged_by_scalar(const ir::Node& node) const {
    const Neutral* neutral = find_neutral(node.op);
    if (neutral == nullptr || !has_unit_alpha(node)) return ir::kNone;
    const auto* scalar = std::get_if<Expr>(&node.args[1]);
    const ir::ValueId operand = as_value(node.args[0]);
    if (scalar == nullptr || !scalar->is_constant() || !neutral->is_neutral(scalar->value())) return ir::kNone;
    if (operand == ir::kNone || !graph_.value(operand).is_tensor()) return ir::kNone;
    const bool applies = !neutral->only_integers || is_integral(graph_.value(operand).tensor().dtype);
    return applies ? operand : ir::kNone;
  }

  // Of a concatenation. Empty caches are concatenated with what is put into them.
  ir::ValueId only_operand_with_elements(const ir::Node& node) const {
    ir::ValueId found = ir::kNone;
    for (const ir::ValueId operand : ir::operands(node)) {
      const auto* type = std::get_if<ir::TensorType>(&graph_.value(operand).type);
      if (type == nullptr) return ir::kNone;
      const auto is_zero_size = [](const Expr& size) { return size.is_constant() && size.value().i == 0; };
      if (std::ranges::any_of(type->sizes, is_zero_size)) continue;
      if (found != ir::kNone) return ir::kNone;
      found = operand;
    }
    return found;
  }

  bool replace(ir::NodeId id, ir::ValueId by) {
    if (by == ir::kNone) return false;
    const ir::ValueId result = graph_.node(id).results[0];
    if (is_output_[result]) return false;
    trace_.unite(by, result);
    replacements_.replace(result, by);
    graph_.erase(id);
    return true;
  }

  // The strides of the result follow the first operand, so the other one must have exactly the result's placement.
  bool move_constant_last(ir::Node& node) const {
    if (!node.op->is(ir::Trait::kCommutative) || node.op->is(ir::Trait::kMutates) || !has_unit_alpha(node))
      return false;
    const ir::ValueId first = as_value(node.args[0]);
    const ir::ValueId second = as_value(node.args[1]);
    if (first == ir::kNone || second == ir::kNone || !is_constant_[first] || is_constant_[second]) return false;
    const auto* type = std::get_if<ir::TensorType>(&graph_.value(second).type);
    const auto* result = std::get_if<ir::TensorType>(&graph_.value(node.results[0]).type);
    if (!type || !result || type->sizes != result->sizes || type->strides != result->strides) return false;
    std::swap(node.args[0], node.args[1]);
    return true;
  }

  ir::Graph& graph_;
  MemoryTrace trace_;
  const EpilogueSources epilogue_sources_;
  Replacements replacements_;
  std::vector<bool> is_output_;    // per value
  std::vector<bool> is_constant_;  // per value
};

}  // namespace

int canonicalise(ir::Graph& graph, PassContext& context) { return Canonicaliser(graph, context).run(); }

}  // namespace npugraph::passes
