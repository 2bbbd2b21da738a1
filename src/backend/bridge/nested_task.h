// SPDX-License-Identifier: Apache-2.0
// Control flow as tasks: a task that runs other Programs, depending on values that only the run knows.
//
//   cond          one of two Programs, chosen by a boolean
//   while_loop    a Program as long as another one returns true; it returns the values for its next turn
//   scan, map     a Program for each slice of tensors; it returns the values for the next slice
//
// The operands of the task are the tensors that the Programs take, and its scalars are their numbers: see NestedRun
// for the inputs that are copied. Results of the last run become results of the task. Results for slices are stacked.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include <ATen/core/Tensor.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include "abi/task.h"
#include "program/program.h"
#include "runtime/executable.h"

namespace npugraph::bridge {

// A tensor in memory that others own, or, without sizes and data, a number.
struct NestedValue {
  void* data = nullptr;
  at::IntArrayRef sizes;
  at::IntArrayRef strides;  // in elements
  ng_scalar scalar{};
};

// Runs one Program inside a task of another one. Its inputs stay where that task finds them; only inputs with other
// strides than the Program was compiled for are copied. Not thread-safe; it belongs to one state of one task.
class NestedRun {
 public:
  explicit NestedRun(std::shared_ptr<runtime::Executable> executable);
  ~NestedRun();
  NestedRun(const NestedRun&) = delete;
  NestedRun& operator=(const NestedRun&) = delete;

  const program::Program& program() const { return program_; }
  // Later runs dispatch with the keys that the calling thread has now, whatever guards are alive then.
  void keep_keys() { keys_ = c10::impl::tls_local_dispatch_key_set(); }
  // Throws the exception of a failed task, and UserError for a tensor of other sizes than the Program was traced for.
  void run(std::span<const NestedValue> inputs);
  // Result `number` of the last run, which must be a tensor, in memory that nobody else holds. May be taken once.
  at::Tensor take(size_t number);
  // Result `number` of the last run, which must be a number.
  at::Scalar scalar(size_t number) const;
  // `value` with the scalar kind of input `number`, which must be a number.
  at::Scalar scalar_input(size_t number, ng_scalar value) const;
  // Frees results that were not taken, and copies of inputs.
  void clear() noexcept;

 private:
  runtime::BoundInput bound(size_t number, const NestedValue& value);
  int64_t size_of(const program::Dim& dim) const;
  void drop_results();

  std::shared_ptr<runtime::Executable> executable_;
  const program::Program& program_;
  std::span<const NestedValue> given_;  // inputs of the last run
  std::vector<runtime::BoundInput> inputs_;
  std::vector<runtime::BoundOutput> outputs_;
  std::vector<int64_t> dims_;
  std::vector<at::Tensor> copies_;  // of inputs with other strides than compiled for
  c10::impl::LocalDispatchKeySet keys_ = c10::impl::tls_local_dispatch_key_set();
};

// The place where a task finds a value of its call: tensor `index` of its arguments, scalar `index`, or a constant.
struct NestedPlace {
  enum class Kind : uint8_t { kTensor, kScalar, kConstant };
  Kind kind = Kind::kConstant;
  int32_t index = 0;
  ng_scalar constant{};
};

struct NestedPrograms {
  enum class Kind : uint8_t { kCond, kWhileLoop, kScan };
  struct Part {
    std::shared_ptr<runtime::Executable> executable;
    std::vector<NestedPlace> inputs;  // for while_loop and scan, those of the first turn
  };
  Kind kind = Kind::kCond;
  // cond: the Program for true, the one for false; while_loop: the condition, the body; scan: the body.
  std::vector<Part> parts;
  NestedPlace predicate;  // for cond
  // Number of values that a body passes to its next turn: its first results, which become its first inputs.
  int32_t carried = 0;
  int32_t sliced = 0;        // for scan: number of inputs after these that are slices along the first dimension
  bool keeps_turns = false;  // for while_loop: results are those of all turns, stacked
};

// UserError when there are no Programs for `task.callable`.
ng_task build_nested_task(const program::Program& program, const program::Task& task);

// `callable` is an id of register_callable(), whose Python function computes
// the same. unregister_callable() removes both.
void register_nested(int32_t callable, NestedPrograms programs);
void unregister_nested(int32_t callable);

}  // namespace npugraph::bridge
