// SPDX-License-Identifier: Apache-2.0
// Programs of several streams: the waits that tasks need besides those of the user's events, and the lives of buffers
// when tasks run at the same time. Programs of one stream are left unchanged.
#pragma once

#include "program/program.h"

namespace npugraph::plan {

// Requires lives in program order. Adds the waits that memory allocated at run time needs: a task that touches a heap
// buffer waits for the one that allocates it, and one task, which releases the buffer, runs after all that touch it.
// Removes waits that other waits imply.
void order_strands(program::Program& program);

// Requires lives in program order. Extends each life to the last task that may run before all tasks that touch the
// buffer are done, and the life of a heap buffer to the task that releases it.
void extend_lives(program::Program& program);

}  // namespace npugraph::plan
