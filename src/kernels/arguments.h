// SPDX-License-Identifier: Apache-2.0
// Task::args as kernels see them: operands, scalars that are known now or at bind time, or nothing.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "abi/task.h"
#include "program/program.h"

namespace npugraph::kernels {

struct Argument {
  int32_t operand = program::kNone;  // of a TensorRef
  bool is_scalar = false;
  Scalar constant;                    // its kind holds for symbolic scalars too
  int32_t symbolic = program::kNone;  // index into ng_call::scalars

  bool is_tensor() const { return operand != program::kNone; }
  bool present() const { return is_tensor() || is_scalar; }
  // Requires is_scalar.
  Scalar value(const ng_call& call) const;
};

class Arguments {
 public:
  explicit Arguments(const program::Task& task);

  // Empty where the task has fewer.
  Argument operator[](size_t i) const { return i < arguments_.size() ? arguments_[i] : Argument{}; }
  // UserError when argument i is no tensor, or no scalar.
  Argument tensor(size_t i) const;
  Argument scalar(size_t i) const;
  // The scalar at i, or `otherwise` where there is none.
  Argument scalar_or(size_t i, Scalar otherwise) const;

 private:
  const program::Task& task_;
  std::vector<Argument> arguments_;
};

// UserError "kernel.x: message".
[[noreturn]] void refuse(const program::Task& task, const std::string& message);
// UserError unless the task has `inputs` operands that it reads and then one that it writes.
void check_operands(const program::Task& task, size_t inputs);

}  // namespace npugraph::kernels
