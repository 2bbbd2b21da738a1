// SPDX-License-Identifier: Apache-2.0
// Sizes of tensors, and tensors that are made of sizes.
#include <algorithm>
#include <array>

#include "base/error.h"
#include "ge/data_types.h"
#include "ge/import/rules.h"
#include "ops/operators.h"

namespace npugraph::ge {

namespace {

std::vector<Operand> shape(const Call& call) {
  const DataTypeRow* row = find_type_by_number(call.attr_int("dtype"));
  if (row == nullptr || !row->dtype || !is_integral(*row->dtype))
    call.fail("its attribute 'dtype' is no type of an integer");
  const std::vector<Expr>& sizes = call.context().sizes(call.value("x"));
  return {{.numbers = Numbers{*row->dtype, {static_cast<int64_t>(sizes.size())}, sizes}}};
}

std::vector<Operand> fill(const Call& call) {
  Context& context = call.context();
  const std::vector<Expr>& sizes = call.numbers("dims").elements;
  if (const Numbers* value = call.find_numbers("value"); value != nullptr && value->elements.size() == 1)
    return one(context.add(aten::full::op(), {sizes, value->elements.front(), value->dtype, None{}, context.device()}));
  return one(context.add(aten::expand::op(), {TensorRef{call.value("value")}, sizes}));
}

std::vector<Operand> range(const Call& call) {
  Context& context = call.context();
  const DType dtype = call.numbers("start").dtype;
  return one(context.add(aten::arange_start_step::op(), {call.scalar("start"), call.scalar("limit"),
                                                         call.scalar("delta"), dtype, None{}, context.device()}));
}

double constant(const Call& call, std::string_view name) {
  const auto value = call.scalar(name);
  if (!value.is_constant()) call.fail(cat("its input '", name, "' has to be constant, got ", value.str()));
  return value.value().as_float();
}

// Numbers at even distances. Those of the second half count from the end, as in ATen.
template <typename Float>
std::vector<Operand> even_numbers(const Call& call, DType dtype) {
  Context& context = call.context();
  const auto start = static_cast<Float>(constant(call, "start")), stop = static_cast<Float>(constant(call, "stop"));
  const int64_t num = call.integer("num");
  if (num < 0) call.fail(cat("its input 'num' is at least 0, got ", num));
  const Float step = num < 2 ? 0 : (stop - start) / static_cast<Float>(num - 1);
  const auto with = [&](const ir::Op& op, ir::ValueId x, const Attr& other) {
    return context.add(op, {TensorRef{x}, other});
  };
  const ir::ValueId place = with(aten::_to_copy::op(), counted(context, Expr(num)), dtype);
  const ir::ValueId first =
      with(aten::add_Tensor::op(), with(aten::mul_Tensor::op(), place, number(step)), number(start));
  const ir::ValueId behind = with(aten::rsub_Scalar::op(), place, Expr(num - 1));
  const ir::ValueId second =
      with(aten::rsub_Scalar::op(), with(aten::mul_Tensor::op(), behind, number(step)), number(stop));
  const ir::ValueId is_first = with(aten::lt_Scalar::op(), place, Expr(std::max<int64_t>(num / 2, 1)));
  return one(context.add(aten::where_self::op(), {TensorRef{is_first}, TensorRef{first}, TensorRef{second}}));
}
std::vector<Operand> linspace(const Call& call) {
  const bool is_wide = call.numbers("start").dtype == DType::kF64;
  return is_wide ? even_numbers<double>(call, DType::kF64) : even_numbers<float>(call, DType::kF32);
}

template <typename Operator>
std::vector<Operand> like(const Call& call) {
  return one(call.context().add(Operator::op(), {TensorRef{call.value("x")}}));
}

constexpr auto kNumberRules = std::to_array<RuleRow>({
    {"Fill", fill},
    {"LinSpace", linspace},
    {"OnesLike", like<aten::ones_like>},
    {"Range", range},
    {"Shape", shape},
    {"ZerosLike", like<aten::zeros_like>},
});

}  // namespace

std::span<const RuleRow> number_rules() { return kNumberRules; }

}  // namespace npugraph::ge
