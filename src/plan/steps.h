// SPDX-License-Identifier: Apache-2.0
// The steps of plan(), in the order in which they run.
#pragma once

#include "program/program.h"

namespace npugraph::plan {

// Arena buffers whose size a task defines move to the heap, preallocated: their tasks write into memory that they are given.
void move_late_sizes_to_heap(program::Program& program);

// Buffer::first_task and last_task; Input::mutated.
void find_lives(program::Program& program);

// Lets results take the memory of dying operands, as Task::may_share allows. Requires lives and keeps them right.
void share_dying_buffers(program::Program& program);

// Task::releases. Requires lives.
void release_heap(program::Program& program);

// Program::segments: one ends after each task that defines a symbol, the last with the last task. A Program without tasks has
// one empty segment.
void cut_segments(program::Program& program);

}  // namespace npugraph::plan
