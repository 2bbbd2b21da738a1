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

template <typename Operator>
std::vector<Operand> like(const Call& call) {
  return one(call.context().add(Operator::op(), {TensorRef{call.value("x")}}));
}

constexpr auto kNumberRules = std::to_array<RuleRow>({
    {"Fill", fill},
    {"OnesLike", like<aten::ones_like>},
    {"Range", range},
    {"Shape", shape},
    {"ZerosLike", like<aten::zeros_like>},
});

}  // namespace

std::span<const RuleRow> number_rules() { return kNumberRules; }

}  // namespace npugraph::ge
