// SPDX-License-Identifier: Apache-2.0
// Losses and their gradients.
#include <array>

#include "base/error.h"
#include "ge/import/elements.h"
#include "ge/import/rules.h"
#include "ops/operators.h"
#include "tensor/shape.h"

namespace npugraph::ge {
namespace {

constexpr std::array<std::string_view, 3> kReductions = {"none", "mean", "sum"};

std::string reduction_of(const Call& call) {
  const std::string reduction = call.attr_string("reduction");
  if (std::ranges::count(kReductions, reduction) == 0)
    call.fail(cat("its attribute 'reduction' is 'none', 'mean' or 'sum', got '", reduction, "'"));
  return reduction;
}

std::vector<Operand> square_loss(const Call& call) {
  Elements e(call);
  const std::string reduction = reduction_of(call);
  const ir::ValueId x = e["predict"], difference = e.of<aten::sub_Tensor>(x, e["label"]);
  const ir::ValueId loss = e.of<aten::mul_Tensor>(difference, difference);
  if (reduction == "none") return e.result(loss);
  return e.result(reduction == "mean" ? e.of<aten::mean>(loss) : e.of<aten::sum>(loss));
}

std::vector<Operand> square_loss_grad(const Call& call) {
  Elements e(call);
  const std::string reduction = reduction_of(call);
  const ir::ValueId x = e["predict"], difference = e.of<aten::sub_Tensor>(x, e["label"]);
  const ir::ValueId grad = e.of<aten::mul_Tensor>(e.of<aten::mul_Tensor>(difference, 2.0), e["dout"]);
  if (reduction != "mean") return e.result(grad);
  const Expr count = numel(call.context().sizes(difference));
  const ir::ValueId divisor = as_tensor(call.context(), count, call.context().type(grad).dtype);
  return e.result(e.of<aten::div_Tensor>(grad, divisor));
}

// The classes of rows, and how much each row counts.
struct Rows {
  ir::ValueId is_ignored, at, weight;  // `at` is class 0 in rows that are ignored, and their weight 0
};

Rows rows_of(const Call& call, Elements& e, ir::ValueId x) {
  Context& context = call.context();
  ir::ValueId target = call.value("target");
  const std::vector<Expr> sizes = context.sizes(x), rows = context.sizes(target);
  if (sizes.empty() || sizes.size() > 2 || rows.size() + 1 != sizes.size())
    call.fail("its 'x' has 1 or 2 dimensions, and its 'target' one less");
  if (rows.size() == 1) context.require_equal(rows[0], sizes[0]);
  if (context.type(target).dtype != DType::kI64)
    target = context.add(aten::_to_copy::op(), {TensorRef{target}, DType::kI64});
  const Attr ignored = Expr(call.attr_int("ignore_index"));
  const ir::ValueId is_ignored = e.of<aten::eq_Scalar>(target, ignored);
  const ir::ValueId at = e.of<aten::masked_fill_Scalar>(target, is_ignored, Attr(Expr(0)));
  ir::ValueId weight = ir::kNone;
  if (call.has("weight")) {
    const ir::ValueId weights = e["weight"];
    context.require_equal(numel(context.sizes(weights)), sizes.back());
    weight = context.add(aten::index_Tensor::op(), {TensorRef{weights}, std::vector<TensorRef>{{at}}});
  } else {
    weight = context.add(aten::full::op(), {rows, Expr(1), context.type(x).dtype, None{}, context.device()});
  }
  return {is_ignored, at, e.of<aten::masked_fill_Scalar>(weight, is_ignored, 0.0)};
}

// Results: the loss, and the sum of the weights that count.
std::vector<Operand> class_loss(const Call& call) {
  Elements e(call);
  Context& context = call.context();
  const std::string reduction = reduction_of(call);
  const ir::ValueId x = e["x"];
  const auto [is_ignored, at, weight] = rows_of(call, e, x);
  const ir::ValueId place = context.add(aten::unsqueeze::op(), {TensorRef{at}, Expr(-1)});
  const ir::ValueId found = context.add(aten::gather::op(), {TensorRef{x}, Expr(-1), TensorRef{place}});
  const ir::ValueId picked = context.add(aten::squeeze_dim::op(), {TensorRef{found}, Expr(-1)});
  const ir::ValueId loss =
      e.of<aten::masked_fill_Scalar>(e.of<aten::mul_Tensor>(e.of<aten::neg>(picked), weight), is_ignored, 0.0);
  const ir::ValueId total = e.of<aten::sum>(weight);
  const bool has_rows = context.sizes(x).size() == 2;
  if (reduction == "none" && has_rows)
    return {e.result(loss).front(), e.result(e.of<aten::mul_Tensor>(total, 0.0)).front()};
  const ir::ValueId sum = e.of<aten::sum>(loss);
  return {e.result(reduction == "mean" ? e.of<aten::div_Tensor>(sum, total) : sum).front(), e.result(total).front()};
}

std::vector<Operand> class_loss_grad(const Call& call) {
  Elements e(call);
  Context& context = call.context();
  const ir::ValueId x = e["x"];
  const auto [is_ignored, at, weight] = rows_of(call, e, x);
  ir::ValueId grad = e.of<aten::mul_Tensor>(e.of<aten::neg>(weight), e["y_grad"]);
  if (reduction_of(call) == "mean") grad = e.of<aten::div_Tensor>(grad, e["total_weight"]);
  grad = e.of<aten::masked_fill_Scalar>(grad, is_ignored, 0.0);  // the total is 0 if all are ignored
  const auto column = [&](ir::ValueId rows) { return context.add(aten::unsqueeze::op(), {TensorRef{rows}, Expr(-1)}); };
  const ir::ValueId hit = e.of<aten::eq_Tensor>(column(at), counted(context, context.sizes(x).back()));
  const ir::ValueId zero = as_tensor(context, Expr(0), context.type(x).dtype);
  return e.result(e.of<aten::where_self>(hit, column(grad), zero));
}

constexpr auto kLossRules = std::to_array<RuleRow>({
    {"MseLoss", square_loss},
    {"MseLossGrad", square_loss_grad},
    {"NLLLoss", class_loss},
    {"NLLLossGrad", class_loss_grad},
});

}  // namespace

std::span<const RuleRow> loss_rules() { return kLossRules; }

}  // namespace npugraph::ge
