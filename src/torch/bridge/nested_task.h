// SPDX-License-Identifier: Apache-2.0
// Control flow as tasks: a task that runs other Programs, by what only the run knows.
//
//   cond          one of two Programs, by a boolean
//   while_loop    a Program as long as another one says so, on values that it returns for its next turn
//   scan, map     a Program for each slice of tensors, on values that it returns for the next slice
//
// The operands of the task are the tensors that the Programs take, and its scalars their numbers: nothing is copied on the way
// in, and results of the last run become results of the task. Slices are put side by side.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "abi/task.h"
#include "program/program.h"
#include "runtime/executable.h"

namespace npugraph::bridge {

// Where the task of a call finds a value: tensor `index` of its arguments, scalar `index`, or a constant.
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
    std::vector<NestedPlace> inputs;  // of while_loop and scan, the initial ones
  };
  Kind kind = Kind::kCond;
  // cond: if true, if false; while_loop: the condition, the body; scan: one.
  std::vector<Part> parts;
  NestedPlace predicate;  // of cond
  // How many values a body takes from its turn before: the first of its inputs and of its results.
  int32_t carried = 0;
  int32_t sliced = 0;        // of scan: how many inputs behind these are slices of tensors, along their first dimension
  bool keeps_turns = false;  // of while_loop: results are those of all turns, side by side
};

// UserError when there are no Programs for `task.callable`.
ng_task build_nested_task(const program::Program& program, const program::Task& task);

// `callable` is one of register_callable(), whose Python function does the same. It is forgotten with that.
void register_nested(int32_t callable, NestedPrograms programs);
void unregister_nested(int32_t callable);

}  // namespace npugraph::bridge
