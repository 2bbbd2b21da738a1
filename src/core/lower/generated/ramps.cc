// SPDX-License-Identifier: Apache-2.0
#include "lower/generated/ramps.h"

#include <cmath>
#include <limits>
#include <vector>

#include "loop/text.h"
#include "lower/arguments.h"
#include "ops/operator_rows.h"

namespace npugraph::lower {
namespace {

using Made = std::optional<Ramp>;

bool is_index_number(const Expr& number) { return number.kind() == ScalarKind::kInt && loop::is_index(number); }

std::optional<Expr> integer(const Attr* argument, int64_t otherwise) {
  if (argument == nullptr) return Expr(otherwise);
  const Expr* e = ops::as_number(*argument);
  return e != nullptr && is_index_number(*e) ? std::optional(*e) : std::nullopt;
}

// A range of integers, in a type that holds them exactly.
Made make_range(const ir::Node& node, DType dtype) {
  const auto start = integer(arg::start.find(node), 0), step = integer(arg::step.find(node), 1);
  if (!start || !step || (dtype != DType::kI64 && dtype != DType::kI32)) return {};
  return Ramp{.first = *start, .step = *step};
}

Made make_number(const Expr& number, DType dtype) {
  if (number.is_constant())
    return can_hold(dtype, number.value()) ? Made(Ramp{.number = number.value()}) : std::nullopt;
  if (!is_index_number(number) || dtype != DType::kI64) return {};
  return Ramp{.first = number, .step = 0};
}

Made make_filled(const ir::Node& node, DType dtype) {
  const bool is_scalar = aten::scalar_tensor::is(node);
  const Expr* number = is_scalar ? aten::scalar_tensor::s(node) : ops::as_number(arg::fill_value(node));
  return number != nullptr ? make_number(*number, dtype) : std::nullopt;
}

Made make_zeros(const ir::Node&, DType dtype) { return make_number(0, dtype); }
Made make_ones(const ir::Node&, DType dtype) { return make_number(1, dtype); }

using Make = Made (*)(const ir::Node& node, DType dtype);
constexpr ops::OperatorRow<Make> kRows[] = {
    {aten::arange::kId, make_range},
    {aten::arange_start::kId, make_range},
    {aten::arange_start_step::kId, make_range},
    {aten::full::kId, make_filled},
    {aten::full_like::kId, make_filled},
    {aten::new_full::kId, make_filled},
    {aten::zeros::kId, make_zeros},
    {aten::zeros_like::kId, make_zeros},
    {aten::new_zeros::kId, make_zeros},
    {aten::ones::kId, make_ones},
    {aten::ones_like::kId, make_ones},
    {aten::new_ones::kId, make_ones},
    {aten::scalar_tensor::kId, make_filled},
};

Made find_made(const ir::Graph& graph, const ir::Node& node) {
  if (node.dead || !node.op->is(ir::Trait::kCreation) || node.results.size() != 1) return {};
  const auto* type = tensor_type(graph, node.results[0]);
  if (type == nullptr || is_complex(type->dtype) || size_of(type->dtype) > 8) return {};
  static const ops::OperatorRows<Make> rows = {kRows};
  const Make* make = rows.find(*node.op);
  return make == nullptr ? std::nullopt : (*make)(node, type->dtype);
}

// Per root: whether a node writes its memory, or may write it.
std::vector<bool> find_written(const ir::Graph& graph, const ir::AliasInfo& aliases) {
  std::vector<bool> written(static_cast<size_t>(graph.num_values()), false);
  for (const ir::NodeId id : graph.order()) {
    const ir::Node& node = graph.node(id);
    if (node.dead) continue;
    const bool may_write = node.op->is(ir::Trait::kOpaque);
    for (const ir::ValueId value : may_write ? ir::operands(node) : ir::written_operands(node)) {
      written[static_cast<size_t>(aliases.root(value))] = true;
    }
  }
  return written;
}

double largest(DType dtype) {
  switch (dtype) {
    case DType::kF64: return std::numeric_limits<double>::max();
    case DType::kF32: return std::numeric_limits<float>::max();
    case DType::kBF16: return 0x1.fep127;
    case DType::kF16: return 65504;
    default: return -1;
  }
}

}  // namespace

bool can_hold(DType dtype, const Scalar& number) {
  if (dtype == DType::kBool) return true;
  if (!is_integral(dtype)) return !(std::isfinite(number.as_float()) && std::abs(number.as_float()) > largest(dtype));
  if (number.kind == ScalarKind::kFloat || dtype == DType::kU64) return number.kind == ScalarKind::kBool;
  const bool is_unsigned = dtype == DType::kU8 || dtype == DType::kU16 || dtype == DType::kU32;
  const int bits = static_cast<int>(size_of(dtype)) * 8;
  if (is_unsigned) return number.i >= 0 && number.i >> bits == 0;
  return bits == 64 || (number.i >= -(int64_t{1} << (bits - 1)) && number.i < int64_t{1} << (bits - 1));
}

loop::Value emit_number(loop::Builder& builder, DType dtype, const Scalar& number) {
  const bool is_float = number.kind == ScalarKind::kFloat;
  const Scalar exact = is_float ? number : Scalar::of_int(number.i);
  return loop::cast(builder.constant(is_float ? DType::kF64 : DType::kI64, exact), dtype);
}

loop::Value emit_element(loop::Builder& builder, const Ramp& ramp, DType dtype, const Expr& index) {
  if (ramp.number) return emit_number(builder, dtype, *ramp.number);
  return loop::cast(builder.index(ramp.first + index * ramp.step), dtype);
}

Ramps::Ramps(const ir::Graph& graph, const ir::AliasInfo& aliases) {
  const std::vector<bool> written = find_written(graph, aliases);
  for (const ir::NodeId id : graph.order()) {
    const ir::Node& node = graph.node(id);
    const Made made = find_made(graph, node);
    if (!made || written[static_cast<size_t>(node.results[0])]) continue;
    add(graph, aliases, node.results[0], *made);
  }
}

// Views of the root have its elements in another order.
void Ramps::add(const ir::Graph& graph, const ir::AliasInfo& aliases, ir::ValueId root, const Ramp& made) {
  const DType dtype = graph.value(root).tensor().dtype;
  for (const ir::ValueId member : aliases.members(root)) {
    const auto* type = tensor_type(graph, member);
    const auto& placement = aliases.placement(member);
    if (type == nullptr || type->dtype != dtype || !placement.placed) continue;
    Ramp seen = made;
    const Expr offset = Expr::make(ExprOp::kFloorDiv, {placement.byte_offset, Expr(size_of(dtype))});
    if (!seen.is_same_everywhere()) seen.first = seen.first + offset * seen.step;
    of_values_.emplace(member, std::move(seen));
  }
}

}  // namespace npugraph::lower
