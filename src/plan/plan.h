// SPDX-License-Identifier: Apache-2.0
// Program -> Program: liveness of buffers, what dies where, what streams must wait for, segments.
#pragma once

#include "program/program.h"

namespace npugraph::plan {

// Fills Buffer::first_task, last_task and preallocated, Task::releases, completes Task::waits, fills Input::mutated and Program::segments. Buffers whose
// size depends on a task-defined symbol leave the arena for the heap. An arena buffer that a task writes where an arena buffer
// of the same size dies shares its memory if the task says that it may (Task::may_share); its operands then name the other
// buffer, and no task touches it. Requires: operands and outputs complete. Guarantees: program::verify() passes. Planning a
// planned Program again changes nothing.
void plan(program::Program& program);

}  // namespace npugraph::plan
