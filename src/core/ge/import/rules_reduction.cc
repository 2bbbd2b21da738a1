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

// Each dimension once, because a loop walks it once.
std::vector<Expr> dimensions(const Call& call, const std::vector<int64_t>& given, size_t rank) {
  std::vector<Expr> axes;
  for (const int64_t axis : given) {
    const Expr dim = static_cast<int64_t>(dimension(call, axis, rank));
    if (std::ranges::count(axes, dim) > 0) call.fail(cat("its axes name dimension ", dim.str(), " more than once"));
    axes.push_back(dim);
  }
  return axes;
}

// Without axes, all dimensions are reduced.
template <typename Operator>
std::vector<Operand> reduce(const Call& call) {
  Context& context = call.context();
  const ir::ValueId x = call.value("x");
  std::vector<Expr> axes = dimensions(call, call.integers("axes"), context.sizes(x).size());
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
  std::vector<Expr> axes = dimensions(call, call.integers("axes"), context.sizes(x).size());
  std::ranges::sort(axes, [](const Expr& a, const Expr& b) { return *a.as_int() > *b.as_int(); });
  for (const Expr& axis : axes)
    x = context.add(Operator::op(), {TensorRef{x}, axis, flag(call.attr_bool("keep_dims"))});
  return one(x);
}

template <typename Operator>
std::vector<Operand> place_of_extreme(const Call& call) {
  Context& context = call.context();
  const ir::ValueId place = context.add(Operator::op(), {TensorRef{call.value("x")}, Expr(call.integer("dimension"))});
  const std::optional<DType> wanted = call.output_type(0);
  if (!wanted || *wanted == DType::kI64) return one(place);
  return one(context.add(aten::_to_copy::op(), {TensorRef{place}, *wanted}));
}

std::vector<Operand> cumulative_sum(const Call& call) {
  if (call.attr_bool("exclusive") || call.attr_bool("reverse"))
    call.fail("its attributes 'exclusive' and 'reverse' have to be false");
  return one(call.context().add(aten::cumsum::op(), {TensorRef{call.value("x")}, Expr(call.integer("axis")), None{}}));
}

// The norm of order p along the axes, all if there are none, but at least epsilon.
std::vector<Operand> norm(const Call& call) {
  Context& context = call.context();
  const ir::ValueId x = call.value("x");
  Attr axes = None{};
  if (const std::vector<int64_t> given = call.attr_ints("axes"); !given.empty())
    axes = dimensions(call, given, context.sizes(x).size());
  const ir::ValueId norm = context.add(aten::linalg_vector_norm::op(), {TensorRef{x}, number(call.attr_float("p")),
                                                                        axes, flag(call.attr_bool("keepdim"))});
  const double epsilon = call.attr_float("epsilon");
  if (epsilon == 0) return one(norm);
  return one(context.add(aten::clamp_min::op(), {TensorRef{norm}, number(epsilon)}));
}

constexpr auto kReductionRules = std::to_array<RuleRow>({
    {"ArgMaxV2", place_of_extreme<aten::argmax>},
    {"ArgMin", place_of_extreme<aten::argmin>},
    {"Cumsum", cumulative_sum},
    {"LpNormV2", norm},
    {"ReduceAll", reduce_one_by_one<aten::all_dim>},
    {"ReduceAny", reduce_one_by_one<aten::any_dim>},
    {"ReduceMax", reduce<aten::amax>},
    {"ReduceMean", reduce<aten::mean_dim>},
    {"ReduceMin", reduce<aten::amin>},
    {"ReduceSum", reduce<aten::sum_dim_IntList>},
});

}  // namespace

std::span<const RuleRow> reduction_rules() { return kReductionRules; }

}  // namespace npugraph::ge
