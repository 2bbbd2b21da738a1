// SPDX-License-Identifier: Apache-2.0
#include "passes/remove_noops.h"

#include <algorithm>
#include <bit>
#include <unordered_map>

#include "passes/epilogues.h"
#include "passes/memory_trace.h"
#include "passes/rewrite.h"

namespace npugraph::passes {
namespace {

// The operand that `node` gives back if its result has that operand's type, or kNone.
using FindOperand = ir::ValueId (*)(const ir::Graph& graph, const ir::Node& node);

ir::ValueId first(const ir::Graph&, const ir::Node& node) { return as_value(node.args[0]); }

// What is written has the size of all that it is written into.
ir::ValueId written_part(const ir::Graph&, const ir::Node& node) { return as_value(argument(node, "src")); }

bool is_integer(const ir::Graph& graph, ir::ValueId id) {
  return graph.value(id).is_tensor() && is_integral(graph.value(id).tensor().dtype);
}

ir::ValueId rounded_integer(const ir::Graph& graph, const ir::Node& node) {
  return is_integer(graph, as_value(node.args[0])) ? first(graph, node) : ir::kNone;
}

// The sum of negative and positive padding may be 0 as well.
ir::ValueId unpadded(const ir::Graph& graph, const ir::Node& node) {
  const auto* pads = as_ints(argument(node, "pad"));
  const auto is_zero = [](const Expr& pad) { return pad.is_constant() && pad.value().i == 0; };
  return pads != nullptr && std::ranges::all_of(*pads, is_zero) ? first(graph, node) : ir::kNone;
}

// Empty caches are concatenated with what is put into them.
ir::ValueId only_part_with_elements(const ir::Graph& graph, const ir::Node& node) {
  ir::ValueId found = ir::kNone;
  for (const ir::ValueId operand : ir::operands(node)) {
    const auto* type = std::get_if<ir::TensorType>(&graph.value(operand).type);
    if (type == nullptr) return ir::kNone;
    if (is_empty(*type)) continue;
    if (found != ir::kNone) return ir::kNone;
    found = operand;
  }
  return found;
}

bool is_one(const Scalar& s) { return s.as_float() == 1.0; }
// -0.0 is told apart: x - (-0.0) makes 0.0 of -0.0.
bool is_zero(const Scalar& s) { return s.kind == ScalarKind::kFloat ? std::bit_cast<int64_t>(s.f) == 0 : s.i == 0; }

bool has_unit_alpha(const ir::Node& node) {
  const int32_t alpha = find_argument(*node.op, "alpha");
  return alpha < 0 || as_int(node.args[alpha]) == 1;
}

template <bool (*is_neutral)(const Scalar&)>
ir::ValueId beside_neutral(const ir::Graph& graph, const ir::Node& node) {
  const auto* scalar = std::get_if<Expr>(&node.args[1]);
  const bool neutral =
      scalar != nullptr && scalar->is_constant() && is_neutral(scalar->value()) && has_unit_alpha(node);
  return neutral ? first(graph, node) : ir::kNone;
}

ir::ValueId integer_plus_zero(const ir::Graph& graph, const ir::Node& node) {
  const ir::ValueId operand = beside_neutral<is_zero>(graph, node);
  return operand != ir::kNone && is_integer(graph, operand) ? operand : ir::kNone;
}

FindOperand find_rule(const ir::Op* op) {
  static const std::unordered_map<const ir::Op*, FindOperand> table = {
      {row("aten.mul.Tensor"), beside_neutral<is_one>},
      {row("aten.mul.Scalar"), beside_neutral<is_one>},
      {row("aten.div.Tensor"), beside_neutral<is_one>},
      {row("aten.div.Scalar"), beside_neutral<is_one>},
      {row("aten.pow.Tensor_Scalar"), beside_neutral<is_one>},
      {row("aten.sub.Tensor"), beside_neutral<is_zero>},
      {row("aten.sub.Scalar"), beside_neutral<is_zero>},
      {row("aten.add.Tensor"), integer_plus_zero},
      {row("aten.add.Scalar"), integer_plus_zero},
      {row("aten.ceil"), rounded_integer},
      {row("aten.floor"), rounded_integer},
      {row("aten.round"), rounded_integer},
      {row("aten.trunc"), rounded_integer},
      {row("prims.convert_element_type"), first},
      {row("aten.repeat"), first},
      {row("aten.tile"), first},
      {row("aten.constant_pad_nd"), unpadded},
      {row("aten.slice_scatter"), written_part},
      {row("aten.cat"), only_part_with_elements},
  };
  const auto found = table.find(op);
  return found == table.end() ? nullptr : found->second;
}

}  // namespace

int remove_noops(ir::Graph& graph, PassContext& context) {
  MemoryTrace trace(graph);
  const EpilogueSources epilogue_sources(graph, trace, context);
  Replacements replacements(graph);
  int hits = 0;
  walk(graph, replacements, [&](ir::NodeId id) {
    const ir::Node& node = graph.node(id);
    const FindOperand rule = find_rule(node.op);
    const ir::ValueId source = rule == nullptr ? ir::kNone : rule(graph, node);
    if (source == ir::kNone || !epilogue_sources.may_be_read_for(source, node.results[0], trace.position(id))) return;
    context.remark(node, "does nothing: removed");
    trace.unite(source, node.results[0]);
    replacements.replace(node.results[0], source);
    graph.erase(id);
    ++hits;
  });
  return hits;
}

}  // namespace npugraph::passes
