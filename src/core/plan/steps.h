// SPDX-License-Identifier: Apache-2.0
// The steps of plan(), in the order in which they run.
#pragma once

#include "program/program.h"

namespace npugraph::plan {

// Moves arena buffers whose size a task defines to the heap. They are preallocated, because their tasks write into
// memory that they are given.
void move_late_sizes_to_heap(program::Program& program);

// Fills Buffer::first_task, Buffer::last_task and Input::mutated.
void find_lives(program::Program& program);

// Lets results take the memory of dying operands, as Task::may_share allows. Requires lives and keeps them right.
void share_dying_buffers(program::Program& program);

// Fills Task::releases. Requires lives.
void release_heap(program::Program& program);

// Fills Program::segments: a segment ends after each task that defines a symbol and after the last task. A Program
// without tasks has one empty segment.
void cut_segments(program::Program& program);

}  // namespace npugraph::plan
