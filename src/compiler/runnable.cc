// SPDX-License-Identifier: Apache-2.0
#include "compiler/runnable.h"

#include <utility>

namespace npugraph::compiler {

Runnable make_runnable(std::shared_ptr<const program::Program> program, runtime::Host& host, const RunOptions& options,
                       const Generators& generators) {
  runtime::Options made{.max_instances = options.max_instances,
                        .max_concurrent = options.max_concurrent,
                        .capture = options.capture,
                        .rules = options.rules,
                        .counts_by_name = true,
                        .label = options.label,
                        .generate = generators.all_sizes};
  Runnable runnable;
  if (options.static_kernels) {
    runnable.static_kernels = std::make_shared<StaticKernels>(program, options, generators.static_sizes);
    made.specialise = [kernels = runnable.static_kernels](auto symbols) { return kernels->for_symbols(symbols); };
  }
  const std::string name = program->name;
  runnable.executable = std::make_shared<runtime::Executable>(std::move(program), host, std::move(made), name);
  return runnable;
}

}  // namespace npugraph::compiler
