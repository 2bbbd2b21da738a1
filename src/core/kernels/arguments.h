// SPDX-License-Identifier: Apache-2.0
// The attributes of a task as kernels see them: operands, scalars that are known now or at bind time, or nothing.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "abi/task.h"
#include "tensor/dtype.h"
#include "tensor/expr.h"

namespace npugraph::kernels {

struct Argument {
  int32_t operand = -1;  // index of the operand of a tensor
  bool is_scalar = false;
  Scalar constant;        // the value; of a symbolic scalar only the kind is valid
  int32_t symbolic = -1;  // index into ng_call::scalars

  bool is_tensor() const { return operand >= 0; }
  bool present() const { return is_tensor() || is_scalar; }
  // Requires is_scalar.
  Scalar value(const ng_call& call) const;
};

class Arguments {
 public:
  explicit Arguments(const ng_definition& task);

  // Argument i; empty if the task has fewer.
  Argument operator[](size_t i) const { return i < arguments_.size() ? arguments_[i] : Argument{}; }
  // UserError when argument i is no tensor, or no scalar.
  Argument tensor(size_t i) const;
  Argument scalar(size_t i) const;
  // The scalar at i, or `otherwise` if there is none.
  Argument scalar_or(size_t i, Scalar otherwise) const;

 private:
  const ng_definition& task_;
  std::vector<Argument> arguments_;
};

// UserError "kernel.x: message".
[[noreturn]] void refuse(const ng_definition& task, const std::string& message);
// UserError unless the task has `inputs` operands that it reads and then one that it writes.
void check_operands(const ng_definition& task, size_t inputs);
inline DType dtype_of(const ng_operand& operand) { return static_cast<DType>(operand.dtype); }

}  // namespace npugraph::kernels
