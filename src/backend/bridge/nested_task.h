// SPDX-License-Identifier: Apache-2.0
// Control flow as tasks: a task that runs other Programs, depending on values that only the run knows.
//
//   cond          one of two Programs, chosen by a boolean
//   while_loop    a Program as long as another one returns true; it returns the values for its next turn
//   scan, map     a Program for each slice of tensors; it returns the values for the next slice
//
// The operands of the task are the tensors that the Programs take, and its scalars are their numbers: see nested_run.h
// for the inputs that are copied. Results of the last run become results of the task. Results for slices are stacked.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "abi/task.h"
#include "program/program.h"
#include "runtime/executable.h"

namespace npugraph::bridge {

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
