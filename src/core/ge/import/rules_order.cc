// SPDX-License-Identifier: Apache-2.0
// Operators that sort elements, or find places and counts by their order.
#include <array>

#include "base/error.h"
#include "ge/data_types.h"
#include "ge/import/rules.h"
#include "ops/operators.h"

namespace npugraph::ge {
namespace {

// Values, and their places in the element type that the operator states or, without one, in `otherwise`.
std::vector<Operand> with_places(const Call& call, std::vector<ir::ValueId> results, DType otherwise) {
  const DType places = call.output_type(1).value_or(otherwise);
  if (places != DType::kI64) results[1] = call.context().add(aten::_to_copy::op(), {TensorRef{results[1]}, places});
  return all(results);
}

Expr checked_dim(const Call& call, std::string_view attribute) {
  const size_t rank = call.context().sizes(call.value("x")).size();
  return static_cast<int64_t>(dimension(call, call.attr_int(attribute), std::max<size_t>(rank, 1)));
}

std::vector<Operand> largest(const Call& call) {
  const ir::ValueId x = call.value("x");
  const Expr dim = checked_dim(call, "dim"), &k = call.scalar("k");
  const std::vector<Expr>& sizes = call.context().sizes(x);
  const Expr size = sizes.empty() ? Expr(1) : sizes[static_cast<size_t>(*dim.as_int())];
  if ((k.as_int() && *k.as_int() < 0) || (size - k).as_int().value_or(0) < 0)
    call.fail(cat("its input 'k' is 0 to the size of the dimension, ", size.str(), ", got ", k.str()));
  return with_places(call,
                     call.context().add_all(aten::topk::op(), {TensorRef{x}, k, dim, flag(call.attr_bool("largest")),
                                                               flag(call.attr_bool("sorted"))}),
                     DType::kI32);
}

std::vector<Operand> sort(const Call& call) {
  return with_places(call,
                     call.context().add_all(aten::sort::op(), {TensorRef{call.value("x")}, checked_dim(call, "axis"),
                                                               flag(call.attr_bool("descending"))}),
                     DType::kI32);
}

std::vector<Operand> running_maximum(const Call& call) {
  return with_places(call,
                     call.context().add_all(aten::cummax::op(), {TensorRef{call.value("x")}, checked_dim(call, "dim")}),
                     DType::kI64);
}

// One sequence for all values, or one for each of their rows.
std::vector<Operand> search_sorted(const Call& call) {
  Context& context = call.context();
  const ir::ValueId sequence = call.value("sorted_sequence"), values = call.value("values");
  const std::vector<Expr> rows = context.sizes(sequence), places = context.sizes(values);
  if (rows.empty() || (rows.size() > 1 && rows.size() != places.size()))
    call.fail(cat("its sequence has 1 dimension or as many as its values, got ", rows.size(), " and ", places.size()));
  for (size_t d = 0; d + 1 < rows.size(); ++d) context.require_equal(rows[d], places[d]);
  if (call.has("sorter")) {
    const std::vector<Expr> order = context.sizes(call.value("sorter"));
    if (order.size() != rows.size()) call.fail("its sorter has the sizes of its sequence");
    for (size_t d = 0; d < rows.size(); ++d) context.require_equal(order[d], rows[d]);
  }
  const auto* stated = find_attr<TypeNumber>(call.def().attrs, "dtype");
  const DataTypeRow* row = stated == nullptr ? nullptr : find_type_by_number(stated->number);
  const bool is_short = row != nullptr && row->dtype == DType::kI32;
  return one(
      context.add(aten::searchsorted_Tensor::op(), {TensorRef{sequence}, TensorRef{values}, flag(is_short),
                                                    flag(call.attr_bool("right")), None{}, call.argument("sorter")}));
}

std::vector<Operand> histogram(const Call& call) {
  Context& context = call.context();
  const int64_t bins = call.attr_int("bins");
  const double min = call.attr_float("min"), max = call.attr_float("max");
  if (bins < 1) call.fail(cat("its attribute 'bins' is at least 1, got ", bins));
  if (min > max) call.fail(cat("its attribute 'max' is at least 'min', ", min, ", got ", max));
  return one(context.add(aten::histc::op(), {TensorRef{call.value("x")}, Expr(bins), number(min), number(max)}));
}

constexpr auto kOrderRules = std::to_array<RuleRow>({
    {"Cummax", running_maximum},
    {"Histogram", histogram},
    {"SearchSorted", search_sorted},
    {"Sort", sort},
    {"TopKV2", largest},
});

}  // namespace

std::span<const RuleRow> order_rules() { return kOrderRules; }

}  // namespace npugraph::ge
