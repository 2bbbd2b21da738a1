// SPDX-License-Identifier: Apache-2.0
#include "compiler/runnable.h"

#include <utility>

namespace npugraph::compiler {

Runnable make_runnable(std::shared_ptr<const program::Program> program, runtime::Host& host, const RunRequest& request,
                       const Generators& generators) {
  runtime::Hooks hooks{.counts_by_name = true, .generate = generators.all_sizes};
  Runnable runnable;
  if (request.static_kernels.enabled) {
    runnable.static_kernels = std::make_shared<StaticKernels>(program, request.static_kernels, generators.static_sizes);
    hooks.specialise = [kernels = runnable.static_kernels](auto symbols) { return kernels->for_symbols(symbols); };
  }
  const std::string name = program->name;
  runnable.executable =
      std::make_shared<runtime::Executable>(std::move(program), host, request.calls, name, std::move(hooks));
  return runnable;
}

}  // namespace npugraph::compiler
