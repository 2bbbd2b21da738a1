// SPDX-License-Identifier: Apache-2.0
// Activations and other functions of elements, and their gradients.
#include <array>
#include <limits>
#include <numbers>
#include <utility>

#include "base/error.h"
#include "ge/import/elements.h"
#include "ge/import/rules.h"
#include "ops/operators.h"

namespace npugraph::ge {
namespace {

template <typename Operator>
std::vector<Operand> function_of_x(const Call& call) {
  return one(call.context().add(Operator::op(), {TensorRef{call.value("x")}}));
}

std::vector<Operand> with_numbers(const Call& call, const ir::Op& op, const std::vector<std::string_view>& names) {
  std::vector<Attr> args = {TensorRef{call.value("x")}};
  for (const std::string_view name : names) args.push_back(number(call.attr_float(name)));
  return one(call.context().add(op, std::move(args)));
}
std::vector<Operand> leaky_relu(const Call& call) {
  return with_numbers(call, aten::leaky_relu::op(), {"negative_slope"});
}
std::vector<Operand> elu(const Call& call) {
  return with_numbers(call, aten::elu::op(), {"alpha", "scale", "input_scale"});
}

// The float next to 1 / 6, as Ascend IR writes it.
constexpr double kSixth = 0.16666666;
bool is_sixth(double value) { return value > kSixth - 1e-7 && value < kSixth + 1e-7; }

// alpha * x + beta between 0 and 1
std::vector<Operand> hard_sigmoid(const Call& call) {
  const double alpha = call.attr_float("alpha"), beta = call.attr_float("beta");
  if (is_sixth(alpha) && beta == 0.5)
    return one(call.context().add(aten::hardsigmoid::op(), {TensorRef{call.value("input_x")}}));
  Elements e(call);
  const ir::ValueId scaled = e.of<aten::mul_Tensor>(e["input_x"], alpha);
  return e.result(e.of<aten::clamp>(e.of<aten::add_Tensor>(scaled, beta), 0.0, 1.0));
}

std::vector<Operand> nan_to_number(const Call& call) {
  Elements e(call);
  const ir::ValueId x = e["x"];
  ir::ValueId y = x;
  for (const auto& [bound, name] : {std::pair{std::numeric_limits<double>::infinity(), "posinf"},
                                    {-std::numeric_limits<double>::infinity(), "neginf"}})
    y = e.of<aten::masked_fill_Scalar>(y, e.of<aten::eq_Scalar>(x, bound), call.attr_float(name));
  return e.result(e.of<aten::masked_fill_Scalar>(y, e.of<aten::isnan>(x), call.attr_float("nan")));
}

// x where it is above the threshold, else the value.
std::vector<Operand> threshold(const Call& call) {
  const Attr value = call.has("value") ? Attr(call.scalar("value")) : Attr(Expr(0));
  return one(call.context().add(aten::threshold::op(), {TensorRef{call.value("x")}, call.scalar("threshold"), value}));
}

// The slope of negative elements is that of their channel, the second dimension, if there are several.
ir::ValueId slopes(const Call& call, ir::ValueId x, ir::ValueId weight) {
  Context& context = call.context();
  const std::vector<Expr> sizes = context.sizes(x), given = context.sizes(weight);
  if (given.size() != 1 || sizes.size() < 2 || given[0].is_int(1)) return weight;
  context.require_equal(given[0], sizes[1]);
  std::vector<Expr> wanted(sizes.size(), Expr(1));
  wanted[1] = sizes[1];
  return reshape(context, weight, wanted);
}
std::vector<Operand> prelu(const Call& call) {
  Elements e(call);
  const ir::ValueId x = e["x"], weight = slopes(call, x, e["weight"]);
  return e.result(e.of<aten::where_self>(e.of<aten::gt_Scalar>(x, 0.0), x, e.of<aten::mul_Tensor>(weight, x)));
}

std::vector<Operand> interpolate(const Call& call) {
  Context& context = call.context();
  const ir::ValueId start = call.value("start"), end = call.value("end");
  context.require_broadcast(context.sizes(start), context.sizes(end));
  if (const Numbers* weight = call.find_numbers("weight"); weight != nullptr && weight->is_scalar())
    return one(context.add(aten::lerp_Scalar::op(), {TensorRef{start}, TensorRef{end}, weight->elements.front()}));
  const ir::ValueId weight = call.value("weight");
  context.require_broadcast(context.sizes(start), context.sizes(weight));
  context.require_broadcast(context.sizes(end), context.sizes(weight));
  return one(context.add(aten::lerp_Tensor::op(), {TensorRef{start}, TensorRef{end}, TensorRef{weight}}));
}

// input_data + value * x1 * x2, or value * x1 / x2
template <typename Operator, typename Combine>
std::vector<Operand> add_combined(const Call& call) {
  Context& context = call.context();
  const ir::ValueId x = call.value("input_data"), a = call.value("x1"), b = call.value("x2");
  context.require_broadcast(context.sizes(a), context.sizes(b));
  context.require_broadcast(context.sizes(x), context.sizes(a));
  context.require_broadcast(context.sizes(x), context.sizes(b));
  if (const Numbers* value = call.find_numbers("value");
      value != nullptr && value->elements.size() == 1 && is_floating(context.type(x).dtype))
    return one(context.add(Operator::op(), {TensorRef{x}, TensorRef{a}, TensorRef{b}, value->elements.front()}));
  Elements e(call);
  const ir::ValueId first = e["input_data"], scaled = e.of<aten::mul_Tensor>(e["x1"], e["value"]);
  return e.result(e.of<aten::add_Tensor>(first, e.of<Combine>(scaled, e["x2"])));
}

// The halves of x along a dimension.
std::pair<ir::ValueId, ir::ValueId> halves(const Call& call, ir::ValueId x) {
  Context& context = call.context();
  const std::vector<Expr> sizes = context.sizes(x);
  const size_t dim = dimension(call, call.attr_int("dim"), sizes.size());
  const Expr half = Expr::make(ExprOp::kFloorDiv, {sizes[dim], Expr(2)});
  context.require_equal(half * Expr(2), sizes[dim]);
  const auto part = [&](const Expr& begin) {
    return context.add(aten::slice_Tensor::op(),
                       {TensorRef{x}, Expr(static_cast<int64_t>(dim)), begin, begin + half, Expr(1)});
  };
  return {part(0), part(half)};
}
std::vector<Operand> gated(const Call& call) {
  Elements e(call);
  const auto [value, gate] = halves(call, e["x"]);
  return e.result(e.of<aten::mul_Tensor>(value, e.of<aten::sigmoid>(gate)));
}

// Hyperbolic functions backwards: logarithms that are exact for small and for large x.
std::vector<Operand> inverse_sinh(const Call& call) {
  Elements e(call);
  const ir::ValueId x = e["x"], size = e.of<aten::abs>(x), square = e.of<aten::mul_Tensor>(x, x);
  const ir::ValueId root = e.of<aten::sqrt>(e.of<aten::add_Tensor>(square, 1.0));
  const ir::ValueId more = e.of<aten::div_Tensor>(square, e.of<aten::add_Tensor>(root, 1.0));
  const ir::ValueId small = e.of<aten::log1p>(e.of<aten::add_Tensor>(size, more));
  const ir::ValueId large = e.of<aten::add_Tensor>(e.of<aten::log>(size), std::numbers::ln2);
  const ir::ValueId y = e.of<aten::where_self>(e.of<aten::gt_Scalar>(size, 1e9), large, small);
  return e.result(e.of<aten::where_self>(e.of<aten::lt_Scalar>(x, 0.0), e.of<aten::neg>(y), y));
}
std::vector<Operand> inverse_cosh(const Call& call) {
  Elements e(call);
  const ir::ValueId x = e["x"], above = e.of<aten::add_Tensor>(x, -1.0);
  const ir::ValueId product = e.of<aten::mul_Tensor>(above, e.of<aten::add_Tensor>(x, 1.0));
  const ir::ValueId small = e.of<aten::log1p>(e.of<aten::add_Tensor>(above, e.of<aten::sqrt>(product)));
  const ir::ValueId large = e.of<aten::add_Tensor>(e.of<aten::log>(x), std::numbers::ln2);
  return e.result(e.of<aten::where_self>(e.of<aten::gt_Scalar>(x, 1e9), large, small));
}
std::vector<Operand> inverse_tanh(const Call& call) {
  Elements e(call);
  const ir::ValueId x = e["x"], size = e.of<aten::abs>(x);
  const ir::ValueId ratio =
      e.of<aten::div_Tensor>(e.of<aten::add_Tensor>(size, size), e.of<aten::rsub_Scalar>(size, 1.0));
  const ir::ValueId y = e.of<aten::mul_Tensor>(e.of<aten::log1p>(ratio), 0.5);
  return e.result(e.of<aten::where_self>(e.of<aten::lt_Scalar>(x, 0.0), e.of<aten::neg>(y), y));
}

// Gradients

// Operators of the gradient and of one other tensor.
template <typename Operator>
std::vector<Operand> gradient(const Call& call, std::string_view of_result, std::string_view other,
                              std::vector<Attr> rest = {}) {
  Context& context = call.context();
  const ir::ValueId grad = call.value(of_result), x = call.value(other);
  context.require_broadcast(context.sizes(grad), context.sizes(x));
  std::vector<Attr> args = {TensorRef{grad}, TensorRef{x}};
  args.insert(args.end(), rest.begin(), rest.end());
  return one(context.add(Operator::op(), std::move(args)));
}
std::vector<Operand> sigmoid_grad(const Call& call) { return gradient<aten::sigmoid_backward>(call, "dy", "y"); }
std::vector<Operand> tanh_grad(const Call& call) { return gradient<aten::tanh_backward>(call, "dy", "y"); }
std::vector<Operand> relu_grad(const Call& call) {
  return gradient<aten::threshold_backward>(call, "gradients", "features", {Expr(0)});
}
std::vector<Operand> threshold_grad(const Call& call) {
  return gradient<aten::threshold_backward>(call, "gradients", "features", {number(call.attr_float("threshold"))});
}
std::vector<Operand> gelu_grad(const Call& call) { return gradient<aten::gelu_backward>(call, "dy", "x"); }
std::vector<Operand> gelu_grad_v2(const Call& call) {
  const std::string approximate = call.attr_string("approximate");
  if (approximate != "none" && approximate != "tanh")
    call.fail(cat("its attribute 'approximate' is 'none' or 'tanh', got '", approximate, "'"));
  return gradient<aten::gelu_backward>(call, "dy", "x", {approximate});
}
std::vector<Operand> swish_grad(const Call& call) {
  if (call.attr_float("scale") != 1) call.fail("its attribute 'scale' has to be 1");
  return gradient<aten::silu_backward>(call, "grad", "x");
}

// The gradient where low < x < high, 0 elsewhere.
ir::ValueId inside(Elements& e, ir::ValueId x, ir::ValueId grad, double low, double high) {
  const ir::ValueId outside = e.of<aten::logical_or>(e.of<aten::le_Scalar>(x, low), e.of<aten::ge_Scalar>(x, high));
  return e.of<aten::masked_fill_Scalar>(grad, outside, 0.0);
}
std::vector<Operand> hardtanh_grad(const Call& call) {
  Elements e(call);
  const ir::ValueId x = e["result"], grad = e["grad"];
  return e.result(inside(e, x, grad, call.attr_float("min_val"), call.attr_float("max_val")));
}
std::vector<Operand> hard_sigmoid_grad(const Call& call) {
  if (!is_sixth(call.attr_float("alpha")) || call.attr_float("beta") != 0.5)
    call.fail("its attributes 'alpha' and 'beta' have to be 1/6 and 0.5");
  Elements e(call);
  const ir::ValueId grad = e["grads"], x = e["input_x"];
  return e.result(inside(e, x, e.of<aten::mul_Tensor>(grad, 1.0 / 6), -3, 3));
}
// 0 below -3, the gradient above 3, grad * (x / 3 + 0.5) between.
std::vector<Operand> hard_swish_grad(const Call& call) {
  Elements e(call);
  const ir::ValueId grad = e["grad"], x = e["x"];
  const ir::ValueId slope = e.of<aten::add_Tensor>(e.of<aten::div_Tensor>(x, 3.0), 0.5);
  const ir::ValueId inner =
      e.of<aten::where_self>(e.of<aten::lt_Scalar>(x, 3.0), e.of<aten::mul_Tensor>(grad, slope), grad);
  return e.result(e.of<aten::masked_fill_Scalar>(inner, e.of<aten::le_Scalar>(x, -3.0), 0.0));
}
std::vector<Operand> leaky_relu_grad(const Call& call) {
  Elements e(call);
  const ir::ValueId grad = e["gradients"], x = e["features"];
  const ir::ValueId below = e.of<aten::mul_Tensor>(grad, call.attr_float("negative_slope"));
  return e.result(e.of<aten::where_self>(e.of<aten::gt_Scalar>(x, 0.0), grad, below));
}
// `activations` is the operand, or the result of the activation.
std::vector<Operand> elu_grad(const Call& call) {
  const double alpha = call.attr_float("alpha"), scale = call.attr_float("scale"),
               input_scale = call.attr_float("input_scale");
  Elements e(call);
  const ir::ValueId grad = e["grads"], x = e["activations"];
  const double negative = alpha * scale;
  const ir::ValueId slope =
      call.attr_bool("is_result")
          ? e.of<aten::mul_Tensor>(e.of<aten::add_Tensor>(x, negative), input_scale)
          : e.of<aten::mul_Tensor>(e.of<aten::exp>(e.of<aten::mul_Tensor>(x, input_scale)), input_scale * negative);
  const ir::ValueId below = e.of<aten::mul_Tensor>(grad, slope);
  return e.result(e.of<aten::where_self>(e.of<aten::le_Scalar>(x, 0.0), below, e.of<aten::mul_Tensor>(grad, scale)));
}
std::vector<Operand> log_sigmoid_grad(const Call& call) {
  Elements e(call);
  const ir::ValueId grad = e["grads"], x = e["features"];
  return e.result(e.of<aten::mul_Tensor>(grad, e.of<aten::sigmoid>(e.of<aten::neg>(x))));
}
std::vector<Operand> gated_grad(const Call& call) {
  Elements e(call);
  const ir::ValueId grad = e["y_grad"], x = e["x"];
  const auto [value, gate] = halves(call, x);
  const ir::ValueId open = e.of<aten::sigmoid>(gate), of_value = e.of<aten::mul_Tensor>(grad, open);
  const ir::ValueId of_gate =
      e.of<aten::mul_Tensor>(e.of<aten::mul_Tensor>(of_value, e.of<aten::rsub_Scalar>(open, 1.0)), value);
  const Expr dim = call.attr_int("dim");
  return e.result(call.context().add(aten::cat::op(), {std::vector<TensorRef>{{of_value}, {of_gate}}, dim}));
}

constexpr auto kActivationRules = std::to_array<RuleRow>({
    {"Acos", function_of_x<aten::acos>},
    {"Acosh", inverse_cosh},
    {"Addcdiv", add_combined<aten::addcdiv, aten::div_Tensor>},
    {"Addcmul", add_combined<aten::addcmul, aten::mul_Tensor>},
    {"Asin", function_of_x<aten::asin>},
    {"Asinh", inverse_sinh},
    {"Atan", function_of_x<aten::atan>},
    {"Atanh", inverse_tanh},
    {"Cosh", function_of_x<aten::cosh>},
    {"Elu", elu},
    {"EluGradV2", elu_grad},
    {"Expm1", function_of_x<aten::expm1>},
    {"GLU", gated},
    {"GLUGrad", gated_grad},
    {"GeluGrad", gelu_grad},
    {"GeluGradV2", gelu_grad_v2},
    {"HardSigmoid", hard_sigmoid},
    {"HardSigmoidGrad", hard_sigmoid_grad},
    {"HardSwish", function_of_x<aten::hardswish>},
    {"HardSwishGrad", hard_swish_grad},
    {"HardtanhGrad", hardtanh_grad},
    {"LeakyRelu", leaky_relu},
    {"LeakyReluGrad", leaky_relu_grad},
    {"Lerp", interpolate},
    {"LogSigmoid", function_of_x<aten::log_sigmoid>},
    {"LogSigmoidGrad", log_sigmoid_grad},
    {"Mish", function_of_x<aten::mish>},
    {"NanToNum", nan_to_number},
    {"PRelu", prelu},
    {"ReluGrad", relu_grad},
    {"SigmoidGrad", sigmoid_grad},
    {"Sign", function_of_x<aten::sign>},
    {"Sinh", function_of_x<aten::sinh>},
    {"SwishGrad", swish_grad},
    {"Tan", function_of_x<aten::tan>},
    {"TanhGrad", tanh_grad},
    {"ThresholdGradV2D", threshold_grad},
    {"ThresholdV2", threshold},
});

}  // namespace

std::span<const RuleRow> activation_rules() { return kActivationRules; }

}  // namespace npugraph::ge
