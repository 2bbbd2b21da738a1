// SPDX-License-Identifier: Apache-2.0
// Makers of npugraph's own tasks: precompiled kernels, and code that is generated from the text in the Program.
#pragma once

#include "runtime/task_makers.h"

namespace npugraph::compiler {

// Makers of kernels and of generated code, for the processor of this machine. Equal texts share their code. UserError
// on a kernel that this build does not have, and on text that does not fit the kind of the task. Thread-safe.
const runtime::TaskMakers& task_makers();

// task_makers().make(program, task)
ng_task make_task(const program::Program& program, const program::Task& task);

// Frees the machine code that no task uses; some of it is kept until then, for compiles of equal text. Thread-safe.
void drop_unused_code();

}  // namespace npugraph::compiler
