// SPDX-License-Identifier: Apache-2.0
#include "program/definition.h"

#include <string>
#include <type_traits>
#include <variant>

#include "base/error.h"

namespace npugraph::program {
namespace {

ng_value value_of(ng_value_kind kind, int64_t number = 0) {
  return {.kind = kind, .scalar = -1, .number = {.i = number}, .text = nullptr};
}

ng_value_kind kind_of(ScalarKind kind) {
  switch (kind) {
    case ScalarKind::kFloat: return NG_VALUE_FLOAT;
    case ScalarKind::kBool: return NG_VALUE_BOOL;
    case ScalarKind::kInt: break;
  }
  return NG_VALUE_INT;
}

ng_value value_of(const TensorRef& tensor) {
  return tensor.id == TensorRef::kAbsent ? value_of(NG_VALUE_NONE) : value_of(NG_VALUE_OPERAND, tensor.id);
}

ng_value value_of(const Expr& expr, int32_t& scalars) {
  ng_value value = value_of(kind_of(expr.kind()));
  if (!expr.is_constant()) {
    value.scalar = scalars++;
    return value;
  }
  const Scalar number = expr.value();
  if (number.kind == ScalarKind::kFloat)
    value.number.f = number.as_float();
  else
    value.number.i = number.i;
  return value;
}

ng_value value_of(const std::string& text) {
  ng_value value = value_of(NG_VALUE_TEXT);
  value.text = text.c_str();
  return value;
}

}  // namespace

Definition::Definition(const Task& task) {
  for (const Operand& operand : task.operands) {
    operands_.push_back({.dtype = static_cast<int32_t>(operand.dtype),
                         .access = static_cast<int32_t>(operand.access),
                         .rank = static_cast<int32_t>(operand.sizes.size()),
                         .reserved = 0});
  }
  for (const Attr& attr : task.args) add(attr);
  for (size_t i = 0; i < values_.size(); ++i) {
    attributes_[i].values = values_[i].data();
    attributes_[i].count = static_cast<uint32_t>(values_[i].size());
  }
  definition_ = {.name = task.name.c_str(),
                 .operands = operands_.data(),
                 .attributes = attributes_.data(),
                 .num_operands = static_cast<uint32_t>(operands_.size()),
                 .num_attributes = static_cast<uint32_t>(attributes_.size()),
                 .abi_version = NG_TASK_ABI_VERSION,
                 .reserved = 0};
}

void Definition::add(const Attr& attr) {
  std::vector<ng_value>& values = values_.emplace_back();
  ng_attribute& attribute = attributes_.emplace_back();
  const auto add_all = [&](const auto& list, const auto& as_value) {
    attribute.is_list = 1;
    for (const auto& element : list) values.push_back(as_value(element));
  };
  const auto of_expr = [&](const Expr& expr) { return value_of(expr, scalars_); };
  std::visit(
      [&](const auto& given) {
        using Given = std::decay_t<decltype(given)>;
        if constexpr (std::is_same_v<Given, None>)
          values.push_back(value_of(NG_VALUE_NONE));
        else if constexpr (std::is_same_v<Given, TensorRef> || std::is_same_v<Given, std::string>)
          values.push_back(value_of(given));
        else if constexpr (std::is_same_v<Given, Expr>)
          values.push_back(of_expr(given));
        else if constexpr (std::is_same_v<Given, DType>)
          values.push_back(value_of(NG_VALUE_DTYPE, static_cast<int64_t>(given)));
        else if constexpr (std::is_same_v<Given, std::vector<Expr>>)
          add_all(given, of_expr);
        else if constexpr (std::is_same_v<Given, std::vector<TensorRef>> ||
                           std::is_same_v<Given, std::vector<std::string>>)
          add_all(given, [](const auto& element) { return value_of(element); });
        else
          values.push_back(value_of(NG_VALUE_OTHER));
      },
      attr);
}

ng_task make_task(ng_make make, const Task& task) {
  const Definition definition(task);
  std::string reason;
  const auto refuse = [](void* to, const char* message) { *static_cast<std::string*>(to) = message; };
  ng_task made{};
  if (make(&definition.get(), &made, refuse, &reason) == NG_OK) return made;
  throw UserError(reason.empty() ? cat("the task ", task.name, " could not be made") : reason);
}

}  // namespace npugraph::program
