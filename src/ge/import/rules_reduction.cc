// SPDX-License-Identifier: Apache-2.0
// Operators that compute one element from many along dimensions.
#include <algorithm>
#include <array>

#include "base/error.h"
#include "ge/data_types.h"
#include "ge/import/results.h"
#include "ge/import/rules.h"
#include "ops/operators.h"

namespace npugraph::ge {

namespace {

std::vector<Expr> axes_of(const Call& call, size_t rank) {
  std::vector<Expr> axes;
  for (const int64_t axis : call.integers("axes")) axes.emplace_back(static_cast<int64_t>(dimension(call, axis, rank)));
  return axes;
}

// Without axes, all dimensions are reduced.
template <typename Operator>
std::vector<Operand> reduce(const Call& call) {
  Context& context = call.context();
  const ir::ValueId x = call.value("x");
  std::vector<Expr> axes = axes_of(call, context.sizes(x).size());
  if (axes.empty()) {
    for (size_t d = 0; d < context.sizes(x).size(); ++d) axes.emplace_back(static_cast<int64_t>(d));
  }
  return one(context.add(Operator::op(), {TensorRef{x}, axes, flag(call.attr_bool("keep_dims"))}));
}

// The operators of one dimension, from the last to the first, so that earlier dimensions keep their numbers.
template <typename Operator>
std::vector<Operand> reduce_one_by_one(const Call& call) {
  Context& context = call.context();
  ir::ValueId x = call.value("x");
  std::vector<Expr> axes = axes_of(call, context.sizes(x).size());
  std::ranges::sort(axes, [](const Expr& a, const Expr& b) { return *a.as_int() > *b.as_int(); });
  for (const Expr& axis : axes)
    x = context.add(Operator::op(), {TensorRef{x}, axis, flag(call.attr_bool("keep_dims"))});
  return one(x);
}

std::vector<Operand> arg_max(const Call& call) {
  Context& context = call.context();
  const ir::ValueId place =
      context.add(aten::argmax::op(), {TensorRef{call.value("x")}, Expr(call.integer("dimension"))});
  const std::optional<DType> wanted = call.output_type(0);
  if (!wanted || *wanted == DType::kI64) return one(place);
  return one(context.add(aten::_to_copy::op(), {TensorRef{place}, *wanted}));
}

std::vector<Operand> cumulative_sum(const Call& call) {
  if (call.attr_bool("exclusive") || call.attr_bool("reverse"))
    call.fail("its attributes 'exclusive' and 'reverse' have to be false");
  return one(call.context().add(aten::cumsum::op(), {TensorRef{call.value("x")}, Expr(call.integer("axis")), None{}}));
}

constexpr auto kRows = std::to_array<RuleRow>({
    {"ArgMaxV2", arg_max},
    {"Cumsum", cumulative_sum},
    {"ReduceAll", reduce_one_by_one<aten::all_dim>},
    {"ReduceAny", reduce_one_by_one<aten::any_dim>},
    {"ReduceMax", reduce<aten::amax>},
    {"ReduceMean", reduce<aten::mean_dim>},
    {"ReduceMin", reduce<aten::amin>},
    {"ReduceSum", reduce<aten::sum_dim_IntList>},
});

}  // namespace

std::span<const RuleRow> reduction_rules() { return kRows; }

}  // namespace npugraph::ge
