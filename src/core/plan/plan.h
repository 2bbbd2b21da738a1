// SPDX-License-Identifier: Apache-2.0
// Program -> Program: lives and releases of buffers, waits between streams, segments.
#pragma once

#include "program/program.h"

namespace npugraph::plan {

// Fills Buffer::first_task, last_task and preallocated, Task::releases, completes Task::waits, fills Input::mutated and
// Program::segments. Arena buffers whose size depends on a task-defined symbol move to the heap. An arena buffer whose
// first task reads another arena buffer of the same size for the last time takes over that memory if the task allows it
// (Task::may_share); operands then name the other buffer, and no task touches the first. Requires: operands and outputs
// complete. Guarantees: program::verify() passes. Planning a planned Program again changes nothing.
void plan(program::Program& program);

}  // namespace npugraph::plan
