// SPDX-License-Identifier: Apache-2.0
#include "kernels/arguments.h"

#include "base/error.h"

namespace npugraph::kernels {

using program::Access;

Scalar Argument::value(const ng_call& call) const {
  if (symbolic == program::kNone) return constant;
  Scalar value = constant;
  value.i = call.scalars[symbolic].i;  // the bits of a float too
  return value;
}

Arguments::Arguments(const program::Task& task) : task_(task) {
  int32_t symbolic = 0;
  for (const Attr& attr : task.args) {
    Argument argument;
    if (const auto* tensor = std::get_if<TensorRef>(&attr)) {
      argument.operand = tensor->id;
    } else if (const auto* expr = std::get_if<Expr>(&attr)) {
      argument.is_scalar = true;
      if (expr->is_constant()) {
        argument.constant = expr->value();
      } else {
        argument.constant.kind = expr->kind();
        argument.symbolic = symbolic++;
      }
    } else if (!std::holds_alternative<None>(attr)) {
      refuse(task, "an argument is neither a tensor nor a scalar");
    }
    arguments_.push_back(argument);
  }
}

Argument Arguments::tensor(size_t i) const {
  if (!(*this)[i].is_tensor()) refuse(task_, cat("argument ", i, " must be a tensor"));
  return arguments_[i];
}

Argument Arguments::scalar(size_t i) const {
  if (!(*this)[i].is_scalar) refuse(task_, cat("argument ", i, " must be a scalar"));
  return arguments_[i];
}

Argument Arguments::scalar_or(size_t i, Scalar otherwise) const {
  if ((*this)[i].present()) return scalar(i);
  Argument argument;
  argument.is_scalar = true;
  argument.constant = otherwise;
  return argument;
}

void refuse(const program::Task& task, const std::string& message) { throw UserError(cat(task.name, ": ", message)); }

void check_operands(const program::Task& task, size_t inputs) {
  bool fits = task.operands.size() == inputs + 1;
  for (size_t i = 0; fits && i <= inputs; ++i)
    fits = task.operands[i].access != (i < inputs ? Access::kWrite : Access::kRead);
  if (!fits) refuse(task, cat("takes ", inputs, " operands to read and then one to write"));
}

}  // namespace npugraph::kernels
