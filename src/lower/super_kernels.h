// SPDX-License-Identifier: Apache-2.0
// Adjacent tasks of one scope as one task (program/super_kernel.h). Scopes are what the user marked:
//
//   scope_begin("block")
//   loop.add(...)                                  super_kernel.block(loop.add, matmul.mm)
//   matmul.mm(...)                        ->       aten.topk.values(...)
//   aten.topk.values(...)                          loop.exp(...)
//   loop.exp(...)
//   scope_end("block")
//
// Tasks of the innermost scope count; one of the empty name keeps its tasks out. Scopes of one name that follow each other are
// one scope.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "lower/lower.h"
#include "program/program.h"

namespace npugraph::lower {

// What a scope became.
struct ScopeResult {
  std::string scope;
  int64_t tasks = 0;              // of it, before
  int64_t super_kernels = 0;      // made of them
  int64_t left = 0;               // that stay by themselves
  std::vector<std::string> cuts;  // tasks that cannot be parts: "aten.topk.values at model.py:12 in forward"
};

struct MergeOptions {
  bool merges = true;   // otherwise the marks go, and nothing else happens
  int64_t workers = 0;  // see program::SuperKernel
};

// Whether a task marks where a scope begins or ends.
bool is_scope_mark(const program::Task& task);

// Merges what can be merged, and drops the marks. `notes` follow the tasks. Requires a Program without a plan.
std::vector<ScopeResult> merge_scopes(program::Program& program, std::vector<TaskNote>& notes, MergeOptions options);

}  // namespace npugraph::lower
