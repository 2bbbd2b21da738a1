// SPDX-License-Identifier: Apache-2.0
// The operands and results of a task as the Program declares them, in the form that ATen and Python tasks need at every
// run. Immutable once made, so thread-safe.
//
// Results are numbered as the operator returns them: every return is one result, a list of tensors is one result per
// tensor, and scalars and absent tensors count. Task::results is indexed by that number.
#pragma once

#include <string>
#include <vector>

#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>

#include "abi/task.h"
#include "backend/bridge/borrowed_tensor.h"
#include "backend/own_kernels/export.h"
#include "program/program.h"

namespace npugraph::bridge {

struct DeclaredOperand {
  DType dtype = DType::kF32;
  bool opaque = false;
  c10::Device device{c10::kCPU};
  bool adopted = false;  // a heap buffer that this task writes: it takes over the memory that the operator made
  bool written = false;
  bool sized_late = false;     // its sizes are known only when the task has run
  bool contiguous = false;     // declared contiguous; set only for operands that are sized late
  bool may_be_absent = false;  // no task reads it, so the operator may leave it undefined
};

class Declared {
 public:
  NPUGRAPH_EXPORT Declared(const program::Program& program, const program::Task& task);

  const std::string& name() const { return name_; }
  const std::vector<DeclaredOperand>& operands() const { return operands_; }
  // Whether result `number` is kept, and so must be stored.
  bool keeps(size_t number) const { return number < results_.size() && results_[number] != program::kNone; }
  int32_t operand_of(size_t number) const { return results_[number]; }

  // Stores result `number`, which must be kept. A planned operand gets the elements in its own memory. Any other
  // operand adopts the tensor, or a copy if the tensor has another holder or other strides than declared. An undefined
  // result that only the caller of the Program reads is stored as an object for which is_absent() is true. c10::Error
  // if a tensor has other sizes than declared, InternalError if it differs otherwise. `own` is a tensor over the
  // operand's memory, or null if the caller has none.
  void store(ng_call* call, size_t number, at::Tensor result, const BorrowedTensor* own) const;
  // Stores the scalar at `position` among the returns of the operator's schema. Ignored if it defines no symbol.
  void store_scalar(ng_call* call, size_t position, const at::Scalar& value) const;
  // Stores the value of the task's `index`-th symbol, if there is one.
  void store_symbol(ng_call* call, size_t index, const at::Scalar& value) const;

 private:
  struct DefinedSymbol {
    ScalarKind kind = ScalarKind::kInt;
    int32_t operand = program::kNone;
    int32_t dim = program::kNone;
    int32_t result = program::kNone;
  };
  void adopt(const ng_call* call, int32_t index, at::Tensor result) const;
  at::Tensor with_strides(const ng_buffer& buffer, const DeclaredOperand& operand, at::Tensor result) const;
  [[noreturn]] void fail(const std::string& what) const;

  std::string name_;
  std::vector<DeclaredOperand> operands_;
  std::vector<int32_t> results_;
  std::vector<DefinedSymbol> defines_;
  bool defines_sizes_ = false;
};

// Whether the object of a result stands for an undefined tensor.
bool is_absent(const c10::TensorImpl& object);

// Tells the host of the call, if it counts them, that the task copied `bytes` that no operand accounts for.
void count_copied(const ng_call* call, int64_t bytes);

// `tensor` or a tensor over the same memory, if nobody else holds that memory; else a copy. The result has neither a
// Python object nor gradients, and is not lazily conjugated or negated.
at::Tensor claim(at::Tensor tensor);

}  // namespace npugraph::bridge
