// SPDX-License-Identifier: Apache-2.0
// Formulas of elements, for operators of Ascend IR that the operator table states by several others.
#pragma once

#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "ge/import/rules.h"
#include "ops/operators.h"

namespace npugraph::ge {

// Elements of the operands of a call, and arithmetic on them. Half types are computed in f32, as ATen's kernels do, and
// the result has the type of the first operand.
class Elements {
 public:
  explicit Elements(const Call& call) : call_(call) {}

  ir::ValueId operator[](std::string_view name) {
    const ir::ValueId x = call_.value(name);
    const DType dtype = call_.context().type(x).dtype;
    if (!result_) result_ = dtype;
    const bool is_half = is_floating(dtype) && size_of(dtype) == 2;
    return is_half ? call_.context().add(aten::_to_copy::op(), {TensorRef{x}, DType::kF32}) : x;
  }

  template <typename Operator, typename... Args>
  ir::ValueId of(Args... args) {
    if constexpr (sizeof...(Args) > 1) broadcast({attr(args)...});
    return call_.context().add(Operator::op(), {attr(args)...});
  }

  std::vector<Operand> result(ir::ValueId value) {
    if (call_.context().type(value).dtype == *result_) return one(value);
    return one(call_.context().add(aten::_to_copy::op(), {TensorRef{value}, *result_}));
  }

 private:
  static Attr attr(ir::ValueId value) { return TensorRef{value}; }
  static Attr attr(double value) { return number(value); }
  static Attr attr(bool value) { return flag(value); }
  static Attr attr(Attr value) { return value; }

  void broadcast(const std::vector<Attr>& args) {
    Context& context = call_.context();
    const auto* first = std::get_if<TensorRef>(&args.front());
    for (size_t i = 1; first != nullptr && i < args.size(); ++i) {
      if (const auto* other = std::get_if<TensorRef>(&args[i]))
        context.require_broadcast(context.sizes(first->id), context.sizes(other->id));
    }
  }

  const Call& call_;
  std::optional<DType> result_;
};

}  // namespace npugraph::ge
