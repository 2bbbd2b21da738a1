// SPDX-License-Identifier: Apache-2.0
#include "runtime/task_makers.h"

#include <string>
#include <utility>

#include "base/error.h"

namespace npugraph::runtime {

TaskMakers& TaskMakers::add(program::TaskKind kind, MakeTask make) {
  const bool is_new = makers_.emplace(kind, std::move(make)).second;
  NG_CHECK(is_new, "tasks of kind ", program::name_of(kind), " have two makers");
  return *this;
}

ng_task TaskMakers::make(const program::Program& program, const program::Task& task) const {
  const auto found = makers_.find(task.kind);
  if (found != makers_.end()) return found->second(program, task);
  const std::string what = cat(task.name, task.source.empty() ? "" : cat(" (", task.source, ")"));
  if (program::has(task.kind, program::KindTrait::kOfHost))
    throw UserError(cat("this process has no torch and cannot run ", what));
  throw UserError(cat("this process cannot run ", what, ": it makes no ", program::name_of(task.kind), " tasks"));
}

}  // namespace npugraph::runtime
