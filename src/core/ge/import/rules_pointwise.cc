// SPDX-License-Identifier: Apache-2.0
// Operators that compute each element of the result from elements at the same place.
#include <array>
#include <cmath>
#include <utility>

#include "base/error.h"
#include "ge/data_types.h"
#include "ge/import/rules.h"
#include "ops/operators.h"

namespace npugraph::ge {

namespace {

template <typename Operator>
std::vector<Operand> unary(const Call& call) {
  return one(call.context().add(Operator::op(), {TensorRef{call.value("x")}}));
}

// Integers are whole.
template <typename Operator>
std::vector<Operand> round_input(const Call& call, std::string_view name) {
  const ir::ValueId x = call.value(name);
  if (is_integral(call.context().type(x).dtype)) return one(x);
  return one(call.context().add(Operator::op(), {TensorRef{x}}));
}
template <typename Operator>
std::vector<Operand> round(const Call& call) {
  return round_input<Operator>(call, "x");
}
std::vector<Operand> truncate(const Call& call) { return round_input<aten::trunc>(call, "input_x"); }

// An operand of an operator that broadcasts. A constant scalar is a number of the user's program, which loops need not
// load. A node needs one tensor, so `must_be_tensor` asks for it.
Attr element(const Call& call, std::string_view name, bool must_be_tensor) {
  const Numbers* numbers = call.find_numbers(name);
  if (!must_be_tensor && numbers != nullptr && numbers->is_scalar()) return numbers->elements.front();
  return TensorRef{call.value(name)};
}

void require_broadcast(const Call& call, const Attr& a, const Attr& b) {
  const auto *x = std::get_if<TensorRef>(&a), *y = std::get_if<TensorRef>(&b);
  if (x == nullptr || y == nullptr) return;
  Context& context = call.context();
  context.require_broadcast(context.sizes(x->id), context.sizes(y->id));
}

template <typename Operator, typename... Rest>
std::vector<Operand> apply(const Call& call, std::string_view first, std::string_view second, Rest... rest) {
  const Attr a = element(call, first, true);
  const Attr b = element(call, second, false);
  require_broadcast(call, a, b);
  return one(call.context().add(Operator::op(), {a, b, rest...}));
}

template <typename Operator>
std::vector<Operand> binary(const Call& call) {
  return apply<Operator>(call, "x1", "x2");
}

// Operators that may exchange their operands. The number then stands second.
template <typename Operator>
std::vector<Operand> commutative(const Call& call) {
  const Numbers *first = call.find_numbers("x1"), *second = call.find_numbers("x2");
  const bool exchange = first != nullptr && first->is_scalar() && (second == nullptr || !second->is_scalar());
  return exchange ? apply<Operator>(call, "x2", "x1") : apply<Operator>(call, "x1", "x2");
}

// Sums and products of booleans, and the greater and the lesser of two, are their disjunctions and conjunctions.
template <typename Operator, typename OfBooleans>
std::vector<Operand> of_booleans_or(const Call& call) {
  const bool has_number = call.find_numbers("x1") != nullptr || call.find_numbers("x2") != nullptr;
  const bool is_bool = !has_number && call.context().type(call.value("x1")).dtype == DType::kBool;
  return is_bool ? binary<OfBooleans>(call) : commutative<Operator>(call);
}

template <typename Scalar, typename Tensor>
std::vector<Operand> power(const Call& call) {
  const Numbers* exponent = call.find_numbers("x2");
  if (exponent != nullptr && exponent->is_scalar() && exponent->elements.front().is_constant())
    return one(call.context().add(Scalar::op(), {TensorRef{call.value("x1")}, exponent->elements.front()}));
  return apply<Tensor>(call, "x1", "x2");
}

std::vector<Operand> true_divide(const Call& call) { return binary<aten::div_Tensor>(call); }

std::vector<Operand> floor_divide(const Call& call) {
  return apply<aten::div_Tensor_mode>(call, "x1", "x2", std::string("floor"));
}

// Integers are divided towards zero, as in C.
std::vector<Operand> divide(const Call& call) {
  const bool is_integer = is_integral(call.context().type(call.value("x1")).dtype);
  return is_integer ? apply<aten::div_Tensor_mode>(call, "x1", "x2", std::string("trunc")) : true_divide(call);
}

// The only element of an input, if it is known as an expression; null otherwise.
const Expr* known_number(const Call& call, std::string_view name) {
  const Numbers* numbers = call.find_numbers(name);
  return numbers != nullptr && numbers->elements.size() == 1 ? &numbers->elements.front() : nullptr;
}

// x1 + alpha * x2
std::vector<Operand> axpy(const Call& call) {
  if (const Expr* alpha = known_number(call, "alpha")) return apply<aten::add_Tensor>(call, "x1", "x2", *alpha);
  Context& context = call.context();
  const ir::ValueId x1 = call.value("x1"), x2 = call.value("x2"), alpha = call.value("alpha");
  context.require_broadcast(context.sizes(x2), context.sizes(alpha));
  const ir::ValueId scaled = context.add(aten::mul_Tensor::op(), {TensorRef{x2}, TensorRef{alpha}});
  context.require_broadcast(context.sizes(x1), context.sizes(scaled));
  return one(context.add(aten::add_Tensor::op(), {TensorRef{x1}, TensorRef{scaled}}));
}

std::vector<Operand> with_value(const Call& call, const ir::Op& op) {
  return one(call.context().add(op, {TensorRef{call.value("x")}, number(call.attr_float("value"))}));
}
std::vector<Operand> muls(const Call& call) { return with_value(call, aten::mul_Tensor::op()); }
std::vector<Operand> adds(const Call& call) { return with_value(call, aten::add_Tensor::op()); }

std::vector<Operand> gelu(const Call& call) {
  const std::string approximate = call.attr_string("approximate");
  if (approximate != "none" && approximate != "tanh")
    call.fail(cat("its attribute 'approximate' is 'none' or 'tanh', got '", approximate, "'"));
  return one(call.context().add(aten::gelu::op(), {TensorRef{call.value("x")}, approximate}));
}

// x * sigmoid(scale * x)
std::vector<Operand> swish(const Call& call) {
  const double scale = call.attr_float("scale");
  if (scale == 1) return unary<aten::silu>(call);
  Context& context = call.context();
  const ir::ValueId x = call.value("x");
  const ir::ValueId scaled = context.add(aten::mul_Tensor::op(), {TensorRef{x}, number(scale)});
  const ir::ValueId gate = context.add(aten::sigmoid::op(), {TensorRef{scaled}});
  return one(context.add(aten::mul_Tensor::op(), {TensorRef{x}, TensorRef{gate}}));
}

// The logarithm of scale * x + shift to a base; -1 stands for e.
std::vector<Operand> logarithm(const Call& call) {
  Context& context = call.context();
  const double base = call.attr_float("base"), scale = call.attr_float("scale"), shift = call.attr_float("shift");
  if (base != -1 && (base <= 0 || base == 1))
    call.fail(cat("its attribute 'base' is -1, or above 0 and not 1, got ", base));
  ir::ValueId x = call.value("x");
  if (scale != 1) x = context.add(aten::mul_Tensor::op(), {TensorRef{x}, number(scale)});
  if (shift != 0) x = context.add(aten::add_Tensor::op(), {TensorRef{x}, number(shift)});
  if (base == 2) return one(context.add(aten::log2::op(), {TensorRef{x}}));
  if (base == 10) return one(context.add(aten::log10::op(), {TensorRef{x}}));
  const ir::ValueId natural = context.add(aten::log::op(), {TensorRef{x}});
  if (base == -1) return one(natural);
  return one(context.add(aten::div_Tensor::op(), {TensorRef{natural}, number(std::log(base))}));
}

// log(1 + exp(beta * x)) / beta, and x itself where beta * x is above the threshold.
std::vector<Operand> softplus(const Call& call, double beta, double threshold) {
  return one(call.context().add(aten::softplus::op(), {TensorRef{call.value("x")}, number(beta), number(threshold)}));
}
std::vector<Operand> softplus_v1(const Call& call) { return softplus(call, 1, 20); }
std::vector<Operand> softplus_v2(const Call& call) {
  return softplus(call, call.attr_float("beta"), call.attr_float("threshold"));
}

std::vector<Operand> cast(const Call& call) {
  const DataTypeRow* row = find_type_by_number(call.attr_int("dst_type"));
  if (row == nullptr || !row->dtype)
    call.fail(cat("its attribute 'dst_type' is ", call.attr_int("dst_type"), ", which is no type of an element"));
  if (const Numbers* numbers = call.find_numbers("x");
      numbers != nullptr && is_integral(numbers->dtype) && is_integral(*row->dtype)) {
    Operand same{.numbers = *numbers};
    same.numbers->dtype = *row->dtype;
    return {same};
  }
  const ir::ValueId x = call.value("x");
  if (call.context().type(x).dtype == *row->dtype) return one(x);
  return one(call.context().add(aten::_to_copy::op(), {TensorRef{x}, *row->dtype}));
}

std::vector<Operand> select(const Call& call, std::string_view yes, std::string_view no) {
  Context& context = call.context();
  const ir::ValueId condition = call.value("condition"), a = call.value(yes), b = call.value(no);
  context.require_broadcast(context.sizes(condition), context.sizes(a));
  context.require_broadcast(context.sizes(condition), context.sizes(b));
  context.require_broadcast(context.sizes(a), context.sizes(b));
  return one(context.add(aten::where_self::op(), {TensorRef{condition}, TensorRef{a}, TensorRef{b}}));
}
std::vector<Operand> select_v1(const Call& call) { return select(call, "x1", "x2"); }
std::vector<Operand> select_v2(const Call& call) { return select(call, "then", "else"); }

std::vector<Operand> masked_fill(const Call& call) {
  Context& context = call.context();
  const ir::ValueId x = call.value("x"), mask = call.value("mask");
  context.require_broadcast(context.sizes(x), context.sizes(mask));
  if (const Expr* value = known_number(call, "value"))
    return one(context.add(aten::masked_fill_Scalar::op(), {TensorRef{x}, TensorRef{mask}, *value}));
  const ir::ValueId value = call.value("value");
  context.require_broadcast(context.sizes(x), context.sizes(value));
  return one(context.add(aten::where_self::op(), {TensorRef{mask}, TensorRef{value}, TensorRef{x}}));
}

// First not below the least value, then not above the largest one.
std::vector<Operand> clip(const Call& call) {
  Context& context = call.context();
  ir::ValueId x = call.value("x");
  const Expr *least = known_number(call, "clip_value_min"), *largest = known_number(call, "clip_value_max");
  if (least != nullptr && largest != nullptr)
    return one(context.add(aten::clamp::op(), {TensorRef{x}, *least, *largest}));
  for (const auto& [op, name] :
       {std::pair{&aten::maximum::op(), "clip_value_min"}, {&aten::minimum::op(), "clip_value_max"}}) {
    const ir::ValueId bound = call.value(name);
    context.require_broadcast(context.sizes(x), context.sizes(bound));
    x = context.add(*op, {TensorRef{x}, TensorRef{bound}});
  }
  return one(x);
}

constexpr auto kPointwiseRules = std::to_array<RuleRow>({
    {"Abs", unary<aten::abs>},
    {"Add", of_booleans_or<aten::add_Tensor, aten::logical_or>},
    {"Adds", adds},
    {"AxpyV2", axpy},
    {"BitwiseAnd", commutative<aten::bitwise_and_Tensor>},
    {"BitwiseOr", commutative<aten::bitwise_or_Tensor>},
    {"BitwiseXor", commutative<aten::bitwise_xor_Tensor>},
    {"Cast", cast},
    {"Ceil", round<aten::ceil>},
    {"ClipByValueV2", clip},
    {"Cos", unary<aten::cos>},
    {"Div", divide},
    {"Equal", commutative<aten::eq_Tensor>},
    {"Erf", unary<aten::erf>},
    {"Erfc", unary<aten::erfc>},
    {"Exp", unary<aten::exp>},
    {"Floor", round<aten::floor>},
    {"FloorDiv", floor_divide},
    {"FloorMod", binary<aten::remainder_Tensor>},
    {"GeluV2", gelu},
    {"Greater", binary<aten::gt_Tensor>},
    {"GreaterEqual", binary<aten::ge_Tensor>},
    {"Invert", unary<aten::bitwise_not>},
    {"IsInf", unary<aten::isinf>},
    {"Less", binary<aten::lt_Tensor>},
    {"LessEqual", binary<aten::le_Tensor>},
    {"Log", logarithm},
    {"Log1p", unary<aten::log1p>},
    {"LogicalAnd", commutative<aten::logical_and>},
    {"LogicalNot", unary<aten::logical_not>},
    {"LogicalOr", commutative<aten::logical_or>},
    {"MaskedFill", masked_fill},
    {"Maximum", of_booleans_or<aten::maximum, aten::logical_or>},
    {"Minimum", of_booleans_or<aten::minimum, aten::logical_and>},
    {"Mul", of_booleans_or<aten::mul_Tensor, aten::logical_and>},
    {"Muls", muls},
    {"Neg", unary<aten::neg>},
    {"NotEqual", commutative<aten::ne_Tensor>},
    {"Pow", power<aten::pow_Tensor_Scalar, aten::pow_Tensor_Tensor>},
    {"RealDiv", true_divide},
    {"Reciprocal", unary<aten::reciprocal>},
    {"Relu", unary<aten::relu>},
    {"Round", round<aten::round>},
    {"Rsqrt", unary<aten::rsqrt>},
    {"Select", select_v1},
    {"SelectV2", select_v2},
    {"Sigmoid", unary<aten::sigmoid>},
    {"Sin", unary<aten::sin>},
    {"Softplus", softplus_v1},
    {"SoftplusV2", softplus_v2},
    {"Sqrt", unary<aten::sqrt>},
    {"Square", unary<aten::square>},
    {"Sub", binary<aten::sub_Tensor>},
    {"Swish", swish},
    {"Tanh", unary<aten::tanh>},
    {"Trunc", truncate},
    {"TruncateMod", binary<aten::fmod_Tensor>},
});

}  // namespace

std::span<const RuleRow> pointwise_rules() { return kPointwiseRules; }

}  // namespace npugraph::ge
