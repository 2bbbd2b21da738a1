// SPDX-License-Identifier: Apache-2.0
#include "compiler/generate.h"

#include <string>
#include <variant>

#include "base/error.h"
#include "codegen/kernel.h"
#include "loop/text.h"
#include "target/target.h"

namespace npugraph::compiler {

ng_task generate(const program::Task& task) {
  const auto* text = task.args.empty() ? nullptr : std::get_if<std::string>(&task.args.front());
  if (text == nullptr) throw UserError(cat("task ", task.name, " carries no text of its kernel"));
  return codegen::make_kernel_task(loop::parse(*text, task.name), target::host_target());
}

}  // namespace npugraph::compiler
