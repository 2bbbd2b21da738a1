// SPDX-License-Identifier: Apache-2.0
// Generated code, from the text that a Program carries of it.
#pragma once

#include "abi/task.h"
#include "program/program.h"

namespace npugraph::compiler {

// Makes the task of an entry of a Program that is generated code, for the processor at hand. Equal texts share their code.
// UserError on text that is not what the kind of the entry asks for. Thread-safe.
ng_task generate(const program::Task& task);

// Frees the machine code of which no task is left; some is kept until then, for who compiles the same again. Thread-safe.
void drop_unused_code();

}  // namespace npugraph::compiler
