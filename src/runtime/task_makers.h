// SPDX-License-Identifier: Apache-2.0
// Who makes the tasks of Programs in this process.
#pragma once

#include <functional>
#include <map>

#include "abi/task.h"
#include "program/program.h"

namespace npugraph::runtime {

// Makes the task of an entry of a Program. UserError where it cannot be made.
using MakeTask = std::function<ng_task(const program::Program&, const program::Task&)>;

// A maker for each kind of task. What adds a kind adds its maker. Thread-safe once all are there.
class TaskMakers {
 public:
  // Each kind once.
  TaskMakers& add(program::TaskKind kind, MakeTask make);
  // UserError that names the task where nobody makes its kind here.
  ng_task make(const program::Program& program, const program::Task& task) const;

 private:
  std::map<program::TaskKind, MakeTask> makers_;
};

}  // namespace npugraph::runtime
