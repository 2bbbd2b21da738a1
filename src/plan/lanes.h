// SPDX-License-Identifier: Apache-2.0
// Programs of several streams: what must be ordered besides what the user's events order, and which memory is free when tasks
// run at once. Programs of one stream are left as they are.
#pragma once

#include "program/program.h"

namespace npugraph::plan {

// Requires lives, of program order. Adds waits where memory comes and goes at run time: a task that touches a heap buffer runs
// after the one that allocates it, and one task runs after all that touch a heap buffer and releases it.
// Removes waits that others imply.
void order_lanes(program::Program& program);

// Requires lives, of program order, and makes them end with the last task that may run before all tasks that touch the
// buffer are done; those of heap buffers with the task that releases them.
void extend_lives(program::Program& program);

}  // namespace npugraph::plan
