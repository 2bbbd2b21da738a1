// SPDX-License-Identifier: Apache-2.0
#include "passes/simplify/remove_noops.h"

#include <algorithm>
#include <bit>

#include "ops/operator_rows.h"
#include "ops/operators.h"
#include "passes/epilogues.h"
#include "passes/memory_trace.h"
#include "passes/rewrite.h"

namespace npugraph::passes {
namespace {

// The operand that equals the result of `node` if both have the same type, or kNone.
using FindOperand = ir::ValueId (*)(const ir::Graph& graph, const ir::Node& node);

ir::ValueId self(const ir::Graph&, const ir::Node& node) { return ops::as_value(arg::self(node)); }

ir::ValueId converted(const ir::Graph&, const ir::Node& node) { return prims::convert_element_type::a(node); }

// A source of the same type as the result is written over all of it.
ir::ValueId written_part(const ir::Graph&, const ir::Node& node) { return aten::slice_scatter::src(node); }

bool is_integer(const ir::Graph& graph, ir::ValueId id) {
  return graph.value(id).is_tensor() && is_integral(graph.value(id).tensor().dtype);
}

ir::ValueId rounded_integer(const ir::Graph& graph, const ir::Node& node) {
  const ir::ValueId operand = self(graph, node);
  return is_integer(graph, operand) ? operand : ir::kNone;
}

// Equal sizes prove nothing, because negative and positive padding may cancel out.
ir::ValueId unpadded(const ir::Graph& graph, const ir::Node& node) {
  const auto* pads = aten::constant_pad_nd::pad(node);
  const auto is_zero = [](const Expr& pad) { return pad.is_constant() && pad.value().i == 0; };
  return pads != nullptr && std::ranges::all_of(*pads, is_zero) ? self(graph, node) : ir::kNone;
}

// Example: an empty cache is concatenated with its first elements.
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
// Not for -0.0: x - (-0.0) turns -0.0 into 0.0.
bool is_zero(const Scalar& s) { return s.kind == ScalarKind::kFloat ? std::bit_cast<int64_t>(s.f) == 0 : s.i == 0; }

template <bool (*is_neutral)(const Scalar&), const ops::ArgumentName& number = arg::other>
ir::ValueId beside_neutral(const ir::Graph& graph, const ir::Node& node) {
  const auto scalar = ops::as_constant(number(node));
  return scalar && is_neutral(*scalar) && has_unit_alpha(node) ? self(graph, node) : ir::kNone;
}

ir::ValueId integer_plus_zero(const ir::Graph& graph, const ir::Node& node) {
  const ir::ValueId operand = beside_neutral<is_zero>(graph, node);
  return operand != ir::kNone && is_integer(graph, operand) ? operand : ir::kNone;
}

constexpr ops::OperatorRow<FindOperand> kNoopRules[] = {
    {aten::mul_Tensor::kId, beside_neutral<is_one>},
    {aten::mul_Scalar::kId, beside_neutral<is_one>},
    {aten::div_Tensor::kId, beside_neutral<is_one>},
    {aten::div_Scalar::kId, beside_neutral<is_one>},
    {aten::pow_Tensor_Scalar::kId, beside_neutral<is_one, arg::exponent>},
    {aten::sub_Tensor::kId, beside_neutral<is_zero>},
    {aten::sub_Scalar::kId, beside_neutral<is_zero>},
    {aten::add_Tensor::kId, integer_plus_zero},
    {aten::add_Scalar::kId, integer_plus_zero},
    {aten::ceil::kId, rounded_integer},
    {aten::floor::kId, rounded_integer},
    {aten::round::kId, rounded_integer},
    {aten::trunc::kId, rounded_integer},
    {prims::convert_element_type::kId, converted},
    {aten::repeat::kId, self},
    {aten::tile::kId, self},
    {aten::constant_pad_nd::kId, unpadded},
    {aten::slice_scatter::kId, written_part},
    {aten::cat::kId, only_part_with_elements},
};

}  // namespace

int remove_noops(ir::Graph& graph, PassContext& context) {
  MemoryTrace trace(graph);
  const EpilogueSources epilogue_sources(graph, trace, context);
  Replacements replacements(graph);
  static const ops::OperatorRows<FindOperand> rules({kNoopRules});
  int hits = 0;
  walk(graph, replacements, [&](ir::NodeId id) {
    const ir::Node& node = graph.node(id);
    const FindOperand* rule = rules.find(*node.op);
    const ir::ValueId source = rule == nullptr ? ir::kNone : (*rule)(graph, node);
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
