// SPDX-License-Identifier: Apache-2.0
#include "backend/bridge/task_makers.h"

#include "backend/bridge/collective_task.h"
#include "backend/bridge/nested_task.h"
#include "compiler/task_makers.h"

namespace npugraph::bridge {

ng_task make_task(const program::Program& program, const program::Task& task) {
  using program::Program, program::Task, program::TaskKind;
  // Never destroyed: tasks may be made while the process ends.
  static const auto& makers = *new runtime::TaskMakers([] {
    runtime::TaskMakers all = compiler::task_makers();
    all.add(TaskKind::kAten, [](const Program& of, const Task& entry) { return build_aten_task(of, entry); })
        .add(TaskKind::kPython, build_python_task)
        .add(TaskKind::kNested, build_nested_task)
        .add(TaskKind::kCollective, build_collective_task);
    return all;
  }());
  return makers.make(program, task);
}

}  // namespace npugraph::bridge
