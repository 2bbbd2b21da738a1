// SPDX-License-Identifier: Apache-2.0
// Operators that compute one element from many: along dimensions, or in windows of an image.
#include <algorithm>
#include <array>

#include "base/error.h"
#include "ge/data_types.h"
#include "ge/import/elements.h"
#include "ge/import/rules.h"
#include "ops/operators.h"

namespace npugraph::ge {
namespace {

// Each dimension once, because a loop walks it once. A scalar has a dimension 0 for torch, and none for loops.
std::vector<Expr> dimensions(const Call& call, const std::vector<int64_t>& given, size_t rank) {
  std::vector<Expr> axes;
  if (rank == 0 && given.size() == 1 && (given.front() == 0 || given.front() == -1)) return axes;
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

// The greatest or least of booleans is whether any or all of them are true.
template <typename Operator, typename OfBooleans>
std::vector<Operand> extreme(const Call& call) {
  const bool is_bool = call.context().type(call.value("x")).dtype == DType::kBool;
  return is_bool ? reduce<OfBooleans>(call) : reduce<Operator>(call);
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
  Context& context = call.context();
  const ir::ValueId x = call.value("x");
  const DType dtype = context.type(x).dtype;  // of the sums, too, which are int64 for torch if those are integers
  return one(context.add(aten::cumsum::op(), {TensorRef{x}, Expr(call.integer("axis")), dtype}));
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

// The root of the variance, and the mean, which may be left out.
std::vector<Operand> deviation(const Call& call) {
  Context& context = call.context();
  const ir::ValueId x = call.value("x");
  Attr axes = None{};
  if (const std::vector<int64_t> given = call.attr_ints("dim"); !given.empty())
    axes = dimensions(call, given, context.sizes(x).size());
  const Expr correction = call.attr_int("correction");
  return all(context.add_all(aten::std_mean_correction::op(),
                             {TensorRef{x}, axes, correction, flag(call.attr_bool("keepdim"))}));
}

// Gradients of softmax and of its logarithm, from their results.
std::vector<Operand> softmax_grad(const Call& call) {
  Elements e(call);
  const ir::ValueId y = e["softmax"], grad = e["grad_softmax"];
  const Attr axes = dimensions(call, call.attr_ints("axes"), call.context().sizes(y).size());
  const ir::ValueId weighted = e.of<aten::mul_Tensor>(grad, y);
  const ir::ValueId sum = e.of<aten::sum_dim_IntList>(weighted, axes, true);
  return e.result(e.of<aten::sub_Tensor>(weighted, e.of<aten::mul_Tensor>(y, sum)));
}
std::vector<Operand> log_softmax_grad(const Call& call) {
  Elements e(call);
  const ir::ValueId grad = e["grad"], y = e["x"];
  const Attr axes = dimensions(call, call.attr_ints("axis"), call.context().sizes(y).size());
  const ir::ValueId sum = e.of<aten::sum_dim_IntList>(grad, axes, true);
  return e.result(e.of<aten::sub_Tensor>(grad, e.of<aten::mul_Tensor>(e.of<aten::exp>(y), sum)));
}

// Each window has an element of the image: padding is at most half of what a window covers.
void refuse_wide_padding(const Call& call, const std::vector<Expr>& windows, const std::vector<Expr>& pads,
                         const std::vector<Expr>& dilations) {
  for (size_t d = 0; d < windows.size(); ++d) {
    const int64_t window = *windows[d].as_int(), pad = *pads[d].as_int(), dilation = *dilations[d].as_int();
    const __int128 covered = (static_cast<__int128>(window) - 1) * dilation + 1;
    if (pad > covered / 2)
      call.fail(cat("its padding is 0 to half of a window, got ", pad, " for a window of ", window));
  }
}

// Windows of height and width, in attributes of two entries.
std::vector<Operand> max_pool_with_argmax(const Call& call) {
  require_channels_first(call);
  const std::vector<Expr> windows = two_of(call, "ksize", 0, 2, 1), pads = two_of(call, "pads", 0, 2, 0),
                          dilations = two_of(call, "dilation", 0, 2, 1);
  refuse_wide_padding(call, windows, pads, dilations);
  Context& context = call.context();
  auto results = context.add_all(aten::max_pool2d_with_indices::op(),
                                 {TensorRef{call.value("x")}, windows, two_of(call, "strides", 0, 2, 1), pads,
                                  dilations, flag(call.attr_bool("ceil_mode"))});
  const std::optional<DType> places = call.output_type(1);
  if (places && *places != DType::kI64)
    results[1] = context.add(aten::_to_copy::op(), {TensorRef{results[1]}, *places});
  return all(results);
}

std::vector<Operand> adaptive_average(const Call& call) {
  return one(call.context().add(aten::_adaptive_avg_pool2d::op(),
                                {TensorRef{call.value("x")}, two_of(call, "output_size", 0, 2, 0)}));
}

// Windows of height and width. `exclusive`: elements outside of the image do not count.
std::vector<Operand> average_pool(const Call& call) {
  require_channels_first(call);
  if (call.attr_string("padding_mode") != "CALCULATED")
    call.fail("its attribute 'padding_mode' has to be 'CALCULATED'");
  if (call.attr_bool("global_pooling")) call.fail("its attribute 'global_pooling' has to be false");
  const std::vector<Expr> windows = height_and_width(call, "ksize", 1), padding = even_pads(call);
  refuse_wide_padding(call, windows, padding, {Expr(1), Expr(1)});
  const int64_t divisor = call.attr_int("divisor_override");
  return one(call.context().add(aten::avg_pool2d::op(),
                                {TensorRef{call.value("x")}, windows, height_and_width(call, "strides", 1), padding,
                                 flag(call.attr_bool("ceil_mode")), flag(!call.attr_bool("exclusive")),
                                 divisor == 0 ? Attr(None{}) : Attr(Expr(divisor))}));
}

constexpr auto kReductionRules = std::to_array<RuleRow>({
    {"AdaptiveAvgPool2d", adaptive_average},
    {"ArgMaxV2", place_of_extreme<aten::argmax>},
    {"ArgMin", place_of_extreme<aten::argmin>},
    {"AvgPoolV2", average_pool},
    {"Cumsum", cumulative_sum},
    {"LogSoftmaxGrad", log_softmax_grad},
    {"LpNormV2", norm},
    {"MaxPoolWithArgmaxV3", max_pool_with_argmax},
    {"ReduceAll", reduce_one_by_one<aten::all_dim>},
    {"ReduceAny", reduce_one_by_one<aten::any_dim>},
    {"ReduceLogSumExp", reduce<aten::logsumexp>},
    {"ReduceMax", extreme<aten::amax, aten::any_dims>},
    {"ReduceMean", reduce<aten::mean_dim>},
    {"ReduceMin", extreme<aten::amin, aten::all_dims>},
    {"ReduceStdV2", deviation},
    {"ReduceSum", reduce<aten::sum_dim_IntList>},
    {"SoftmaxGrad", softmax_grad},
});

}  // namespace

std::span<const RuleRow> reduction_rules() { return kReductionRules; }

}  // namespace npugraph::ge
