// SPDX-License-Identifier: Apache-2.0
// The makers of the tasks of Programs in this process.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <span>

#include "abi/task.h"
#include "program/program.h"

namespace npugraph::runtime {

// Makes the task of an entry of a Program. UserError if it cannot be made.
using MakeTask = std::function<ng_task(const program::Program&, const program::Task&)>;

// Makes a task that is only valid for the given values of its scalars; nullopt if there is no such task.
using Specialise = std::function<std::optional<ng_task>(const program::Task&, std::span<const ng_scalar> scalars)>;

// One maker for each kind of task. Code that adds a kind adds its maker. Thread-safe once all makers are added.
class TaskMakers {
 public:
  // Adds the maker of a kind, once for each kind.
  TaskMakers& add(program::TaskKind kind, MakeTask make);
  // UserError that names the task if its kind has no maker in this process.
  ng_task make(const program::Program& program, const program::Task& task) const;

 private:
  std::map<program::TaskKind, MakeTask> makers_;
};

}  // namespace npugraph::runtime
