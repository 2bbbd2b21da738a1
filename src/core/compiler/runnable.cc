// SPDX-License-Identifier: Apache-2.0
#include "compiler/runnable.h"

#include <utility>

namespace npugraph::compiler {

Runnable make_runnable(std::shared_ptr<const program::Program> program, runtime::Host& host, const RunRequest& request,
                       const runtime::MakeTask& make_task, GeneratedTasks* generated) {
  runtime::Hooks hooks{.counts_by_name = true, .specialise = {}};
  Runnable runnable;
  if (request.static_kernels.enabled) {
    runnable.static_kernels = std::make_shared<StaticKernels>(program, request.static_kernels, make_task);
    hooks.specialise = [kernels = runnable.static_kernels](auto symbols) { return kernels->for_symbols(symbols); };
  }
  const auto take_or_make = [&](const program::Program& all, const program::Task& task) {
    if (generated == nullptr || !program::is_generated(task.kind)) return make_task(all, task);
    return generated->take(static_cast<size_t>(&task - all.tasks.data()));
  };
  const std::string name = program->name;
  runnable.executable = std::make_shared<runtime::Executable>(std::move(program), host, take_or_make, request.calls,
                                                              name, std::move(hooks));
  return runnable;
}

}  // namespace npugraph::compiler
