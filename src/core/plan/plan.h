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

// Steps of plan() for Programs of several streams: the waits that tasks need besides those of the user's events, and
// the lives of buffers when tasks run at the same time. Programs of one stream are left unchanged.

// Requires lives in program order. Adds the waits that memory allocated at run time needs: a task that touches a heap
// buffer waits for the one that allocates it, and one task, which releases the buffer, runs after all that touch it.
// Removes waits that other waits imply.
void order_strands(program::Program& program);

// Requires lives in program order. Extends each life to the last task that may run before all tasks that touch the
// buffer are done, and the life of a heap buffer to the task that releases it.
void extend_lives(program::Program& program);

}  // namespace npugraph::plan
