// SPDX-License-Identifier: Apache-2.0
// Merges adjacent tasks of one scope into one task (program/parts.h). The user marks scopes:
//
//   scope_begin("block")
//   loop.add(...)                                  super_kernel.block(loop.add, matmul.mm)
//   matmul.mm(...)                        ->       aten.topk.values(...)
//   aten.topk.values(...)                          loop.exp(...)
//   loop.exp(...)
//   scope_end("block")
//
// A task belongs to the innermost scope around it; tasks of a scope with an empty name are not merged. Adjacent scopes
// of one name are one scope.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "lower/lower.h"
#include "program/program.h"

namespace npugraph::lower {

// The result for one scope.
struct ScopeResult {
  std::string scope;
  int64_t tasks = 0;              // tasks of the scope before merging
  int64_t super_kernels = 0;      // super kernels made of them
  int64_t left = 0;               // tasks that stay by themselves
  std::vector<std::string> cuts;  // tasks that cannot be parts: "aten.topk.values at model.py:12 in forward"
};

struct MergeOptions {
  bool merges = true;   // false: only removes the marks
  int64_t workers = 0;  // see program::SuperKernel
};

// Whether a task marks where a scope begins or ends.
bool is_scope_mark(const program::Task& task);

// Merges tasks where possible and removes the marks. `notes` has one entry per task, before and after. Requires a
// Program without a plan.
std::vector<ScopeResult> merge_scopes(program::Program& program, std::vector<TaskNote>& notes, MergeOptions options);

}  // namespace npugraph::lower
