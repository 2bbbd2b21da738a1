// SPDX-License-Identifier: Apache-2.0
// Normalisations and softmax.
#include <array>
#include <initializer_list>
#include <string_view>
#include <utility>

#include "base/error.h"
#include "ge/import/rules.h"
#include "ops/operators.h"
#include "tensor/shape.h"

namespace npugraph::ge {

namespace {

std::vector<Operand> layer_norm(const Call& call, const std::vector<Expr>& normalised) {
  Context& context = call.context();
  const ir::ValueId x = call.value("x");
  const std::vector<Expr>& sizes = context.sizes(x);
  if (normalised.empty() || normalised.size() > sizes.size())
    call.fail(cat("it normalises 1 to ", sizes.size(), " dimensions, got ", normalised.size()));
  for (size_t d = 0; d < normalised.size(); ++d)
    context.require_equal(sizes[sizes.size() - normalised.size() + d], normalised[d]);
  for (const std::string_view name : {"gamma", "beta"}) {
    if (!call.has(name)) continue;
    const std::vector<Expr>& parameter = context.sizes(call.value(name));
    if (parameter.size() != normalised.size())
      call.fail(cat("its input '", name, "' has ", normalised.size(), " dimensions, got ", parameter.size()));
    for (size_t d = 0; d < normalised.size(); ++d) context.require_equal(parameter[d], normalised[d]);
  }
  return all(context.add_all(
      aten::native_layer_norm::op(),
      {TensorRef{x}, normalised, call.argument("gamma"), call.argument("beta"), number(call.attr_float("epsilon"))}));
}

std::vector<Operand> layer_norm_v4(const Call& call) {
  return layer_norm(call, call.numbers("normalized_shape").elements);
}

std::vector<Operand> layer_norm_v3(const Call& call) {
  const std::vector<Expr>& sizes = call.context().sizes(call.value("x"));
  const size_t begin = dimension(call, call.attr_int("begin_norm_axis"), sizes.size());
  return layer_norm(call, {sizes.begin() + static_cast<std::ptrdiff_t>(begin), sizes.end()});
}

// The inputs of these names have one element for each channel of x.
void require_of_channels(const Call& call, std::initializer_list<std::string_view> names) {
  Context& context = call.context();
  const std::vector<Expr>& sizes = context.sizes(call.value("x"));
  if (sizes.size() < 2) call.fail(cat("its input 'x' has at least 2 dimensions, got ", sizes.size()));
  for (const std::string_view name : names) {
    const std::vector<Expr>& parameter = context.sizes(call.value(name));
    if (parameter.size() != 1) call.fail(cat("its input '", name, "' has 1 dimension, got ", parameter.size()));
    context.require_equal(sizes[1], parameter[0]);
  }
}

std::vector<Operand> batch_norm(const Call& call) {
  Context& context = call.context();
  require_of_channels(call, {"scale", "offset", "mean", "variance"});
  const auto results = context.add_all(
      aten::_native_batch_norm_legit_no_training::op(),
      {TensorRef{call.value("x")}, call.argument("scale"), call.argument("offset"), TensorRef{call.value("mean")},
       TensorRef{call.value("variance")}, number(0.1), number(call.attr_float("epsilon"))});
  return one(results.front());
}

void require_training(const Call& call) {
  if (!call.attr_bool("is_training")) call.fail("its attribute 'is_training' is true, got false; BNInfer infers");
}

// Results: y, the running statistics afterwards, and those of the batch.
std::vector<Operand> batch_norm_v3(const Call& call) {
  require_training(call);
  require_of_channels(call, {"weight", "bias", "running_mean", "running_var"});
  const auto results =
      call.context().add_all(aten::_native_batch_norm_legit_functional::op(),
                             {TensorRef{call.value("x")}, call.argument("weight"), call.argument("bias"),
                              call.argument("running_mean"), call.argument("running_var"), flag(true),
                              number(call.attr_float("momentum")), number(call.attr_float("epsilon"))});
  return all({results[0], results[3], results[4], results[1], results[2]});
}

std::vector<Operand> batch_norm_grad_v3(const Call& call) {
  require_training(call);
  require_of_channels(call, {"weight", "running_mean", "running_var", "save_mean", "save_rstd"});
  Context& context = call.context();
  const ir::ValueId x = call.value("x"), dy = call.value("dy");
  if (context.sizes(x).size() != context.sizes(dy).size()) call.fail("its inputs 'dy' and 'x' have the same sizes");
  for (size_t d = 0; d < context.sizes(x).size(); ++d) context.require_equal(context.sizes(x)[d], context.sizes(dy)[d]);
  return all(context.add_all(
      aten::native_batch_norm_backward::op(),
      {TensorRef{dy}, TensorRef{x}, call.argument("weight"), call.argument("running_mean"),
       call.argument("running_var"), call.argument("save_mean"), call.argument("save_rstd"), flag(true),
       number(call.attr_float("epsilon")), std::vector<Expr>(3, Expr::constant(Scalar::of_bool(true)))}));
}

// The groups of channels of x are normalised as the rows of [images, groups, elements of a group].
struct GroupNorm {
  ir::ValueId y = ir::kNone, rows = ir::kNone, rstd = ir::kNone, mean = ir::kNone;
};
GroupNorm normalise_groups(const Call& call) {
  Context& context = call.context();
  const ir::ValueId x = call.value("x");
  const std::vector<Expr> sizes = context.sizes(x);
  if (sizes.size() < 2) call.fail("its input 'x' has at least 2 dimensions");
  const Expr groups(call.attr_int("num_groups"));
  if (*groups.as_int() < 1) call.fail(cat("its attribute 'num_groups' is at least 1, got ", groups.str()));
  const Expr in_group = Expr::make(ExprOp::kFloorDiv, {sizes[1], groups});
  context.require_equal(sizes[1], in_group * groups);
  const Expr elements = in_group * numel({sizes.begin() + 2, sizes.end()});
  GroupNorm result;
  result.rows = reshape(context, x, {sizes[0], groups, elements});
  const auto normalised = context.add_all(
      aten::native_layer_norm::op(),
      {TensorRef{result.rows}, std::vector<Expr>{elements}, None{}, None{}, number(call.attr_float("eps"))});
  ir::ValueId y = reshape(context, normalised[0], sizes);
  // Parameters have one element for each channel.
  std::vector<Expr> of_channels(sizes.size() - 1, Expr(1));
  of_channels[0] = sizes[1];
  for (const auto& [name, op] : {std::pair{"gamma", &aten::mul_Tensor::op()}, {"beta", &aten::add_Tensor::op()}}) {
    if (!call.has(name)) continue;
    const ir::ValueId parameter = call.value(name);
    context.require_equal(sizes[1], numel(context.sizes(parameter)));
    y = context.add(*op, {TensorRef{y}, TensorRef{reshape(context, parameter, of_channels)}});
  }
  result.y = y;
  result.mean = reshape(context, normalised[1], {sizes[0], groups});
  result.rstd = reshape(context, normalised[2], {sizes[0], groups});
  return result;
}

ir::ValueId variance_of(Context& context, const GroupNorm& norm) {
  return context.add(aten::var_correction::op(), {TensorRef{norm.rows}, std::vector<Expr>{2}, Expr(0), flag(false)});
}

std::vector<Operand> group_norm(const Call& call) {
  require_channels_first(call);
  const GroupNorm norm = normalise_groups(call);
  return all({norm.y, norm.mean, variance_of(call.context(), norm)});
}

std::vector<Operand> group_norm_v2(const Call& call) {
  require_channels_first(call);
  const GroupNorm norm = normalise_groups(call);
  return all({norm.y, norm.mean, norm.rstd});
}

// x * rsqrt(mean(x^2) + epsilon) * gamma, and the reciprocal root in f32.
std::vector<Operand> rms_norm(const Call& call) {
  Context& context = call.context();
  const ir::ValueId x = call.value("x"), gamma = call.value("gamma");
  const DType dtype = context.type(x).dtype;
  const auto to = [&](ir::ValueId value, DType type) {
    return context.type(value).dtype == type ? value : context.add(aten::_to_copy::op(), {TensorRef{value}, type});
  };
  const ir::ValueId wide = to(x, DType::kF32);
  const size_t rank = context.sizes(x).size(), normalised = context.sizes(gamma).size();
  if (normalised < 1 || normalised > rank) call.fail("its input 'gamma' has 1 dimension to as many as 'x'");
  std::vector<Expr> dims;
  for (size_t d = rank - normalised; d < rank; ++d) {
    context.require_equal(context.sizes(x)[d], context.sizes(gamma)[d - rank + normalised]);
    dims.emplace_back(static_cast<int64_t>(d));
  }
  const ir::ValueId square = context.add(aten::pow_Tensor_Scalar::op(), {TensorRef{wide}, Expr(2)});
  const ir::ValueId mean = context.add(aten::mean_dim::op(), {TensorRef{square}, dims, flag(true)});
  const ir::ValueId shifted =
      context.add(aten::add_Tensor::op(), {TensorRef{mean}, number(call.attr_float("epsilon"))});
  const ir::ValueId rstd = context.add(aten::rsqrt::op(), {TensorRef{shifted}});
  const ir::ValueId scaled = context.add(aten::mul_Tensor::op(), {TensorRef{wide}, TensorRef{rstd}});
  const ir::ValueId y = context.add(aten::mul_Tensor::op(), {TensorRef{scaled}, TensorRef{to(gamma, DType::kF32)}});
  return {Operand::of(to(y, dtype)), Operand::of(rstd)};
}

int64_t only_axis(const Call& call) {
  const std::vector<int64_t> axes = call.attr_ints("axes");
  if (axes.size() != 1) call.fail(cat("its attribute 'axes' has one entry, got ", axes.size()));
  return axes.front();
}

template <typename Operator>
std::vector<Operand> softmax_of(const Call& call, bool half_to_float) {
  return one(call.context().add(Operator::op(),
                                {TensorRef{call.value(Operator::kId == aten::_log_softmax::kId ? "logits" : "x")},
                                 Expr(only_axis(call)), flag(half_to_float)}));
}
std::vector<Operand> softmax(const Call& call) {
  return softmax_of<aten::_softmax>(call, call.attr_bool("half_to_float"));
}
std::vector<Operand> log_softmax(const Call& call) { return softmax_of<aten::_log_softmax>(call, false); }

constexpr auto kNormRules = std::to_array<RuleRow>({
    {"BNInfer", batch_norm},
    {"BatchNormGradV3", batch_norm_grad_v3},
    {"BatchNormV3", batch_norm_v3},
    {"GroupNorm", group_norm},
    {"GroupNormV2", group_norm_v2},
    {"LayerNormV3", layer_norm_v3},
    {"LayerNormV4", layer_norm_v4},
    {"LogSoftmaxV2", log_softmax},
    {"RmsNorm", rms_norm},
    {"SoftmaxV2", softmax},
});

}  // namespace

std::span<const RuleRow> norm_rules() { return kNormRules; }

}  // namespace npugraph::ge
