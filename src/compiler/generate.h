// SPDX-License-Identifier: Apache-2.0
// Generated code, from the text that a Program carries of it.
#pragma once

#include "abi/task.h"
#include "program/program.h"

namespace npugraph::compiler {

// Makes the task of a Program's kLoop or kMatmul entry for the processor at hand. Equal texts share their code. UserError on text that
// is no kernel. Thread-safe.
ng_task generate(const program::Task& task);

}  // namespace npugraph::compiler
