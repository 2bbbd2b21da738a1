// SPDX-License-Identifier: Apache-2.0
// Who makes the tasks of our own: precompiled kernels, and code that is generated from the text that a Program carries of it.
#pragma once

#include "runtime/task_makers.h"

namespace npugraph::compiler {

// Makers of kernels and of generated code, for the processor at hand. Equal texts share their code. UserError on a kernel that
// this build does not have, and on text that is not what the kind of the entry asks for. Thread-safe.
const runtime::TaskMakers& task_makers();

// task_makers().make(program, task)
ng_task make_task(const program::Program& program, const program::Task& task);

// Frees the machine code of which no task is left; some is kept until then, for who compiles the same again. Thread-safe.
void drop_unused_code();

}  // namespace npugraph::compiler
