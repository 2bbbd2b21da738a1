// SPDX-License-Identifier: Apache-2.0
// The generated tasks of one Program, made together.
#pragma once

#include <map>

#include "abi/task.h"
#include "program/program.h"
#include "runtime/task_makers.h"

namespace npugraph::compiler {

// The constructor makes the tasks: tasks of equal text one after the other, others in parallel. InternalError if there
// is one whose code cannot be made, because lowering generates no other.
class GeneratedTasks {
 public:
  GeneratedTasks(const program::Program& program, const runtime::MakeTask& make);
  ~GeneratedTasks();
  GeneratedTasks(const GeneratedTasks&) = delete;
  GeneratedTasks& operator=(const GeneratedTasks&) = delete;

  // The task of an entry; the caller destroys it. To be called at most once per entry.
  ng_task take(size_t entry);
  // Pieces of code that LLVM made for them, and its time, summed over threads.
  int64_t builds() const { return builds_; }
  int64_t build_ns() const { return build_ns_; }
  // Pieces of code that were read from disk for them.
  int64_t loads() const { return loads_; }

 private:
  void destroy_all();

  std::map<size_t, ng_task> tasks_;
  int64_t builds_ = 0;
  int64_t build_ns_ = 0;
  int64_t loads_ = 0;
};

}  // namespace npugraph::compiler
