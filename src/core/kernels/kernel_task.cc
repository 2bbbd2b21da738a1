// SPDX-License-Identifier: Apache-2.0
#include "kernels/kernel_task.h"

#include "base/error.h"
#include "base/words.h"

namespace npugraph::kernels {

namespace {

Scalar scalar_of(const ng_value& value) {
  switch (value.kind) {
    case NG_VALUE_FLOAT: return Scalar::of_float(value.number.f);
    case NG_VALUE_BOOL: return Scalar::of_bool(value.number.i != 0);
    default: return Scalar::of_int(value.number.i);
  }
}

Argument argument_of(const ng_definition& task, const ng_attribute& attribute) {
  Argument argument;
  const int32_t kind = attribute.is_list != 0 ? NG_VALUE_OTHER : attribute.values->kind;
  switch (kind) {
    case NG_VALUE_NONE: break;
    case NG_VALUE_OPERAND: argument.operand = static_cast<int32_t>(attribute.values->number.i); break;
    case NG_VALUE_INT:
    case NG_VALUE_FLOAT:
    case NG_VALUE_BOOL:
      argument.is_scalar = true;
      argument.constant = scalar_of(*attribute.values);
      argument.symbolic = attribute.values->scalar;
      break;
    default: refuse(task, "an argument is neither a tensor nor a scalar");
  }
  return argument;
}

}  // namespace

Scalar Argument::value(const ng_call& call) const {
  if (symbolic < 0) return constant;
  Scalar value = constant;
  value.i = call.scalars[symbolic].i;  // copies the bits of a float, too
  return value;
}

Arguments::Arguments(const ng_definition& task) : task_(task) {
  for (uint32_t i = 0; i < task.num_attributes; ++i) arguments_.push_back(argument_of(task, task.attributes[i]));
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

void refuse(const ng_definition& task, const std::string& message) { throw UserError(cat(task.name, ": ", message)); }

void check_operands(const ng_definition& task, size_t inputs, size_t results) {
  const size_t all = inputs + results;
  bool fits = task.num_operands == all;
  for (size_t i = 0; fits && i < all; ++i) fits = task.operands[i].access != (i < inputs ? NG_WRITE : NG_READ);
  if (!fits) refuse(task, cat("takes ", counted(inputs, "operand"), " to read and then ", results, " to write"));
}

}  // namespace npugraph::kernels
