// SPDX-License-Identifier: Apache-2.0
// Super kernels: tasks that run several others one after the other, as one call of the runtime.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "program/offsets.h"
#include "program/program.h"

namespace npugraph::program {

// The tasks that a super kernel runs, in order. Tensors in their arguments are indices into the operands of the part.
struct SuperKernel {
  std::vector<Task> parts;
  int64_t workers = 0;  // threads that it may use at most; 0: all
};

// Whether a task can be a part: it neither allocates results nor defines symbols, and runs no code of the host.
bool can_be_part(const Task& task);

// Returns the task that runs `parts`: at least one, all of one stream. Its operands are those of the parts, one after
// the other; it is named after `scope`. A Share of a part is dropped if a later part touches the buffer that it reads,
// or an earlier part the buffer that it writes.
Task super_kernel(std::span<const Task> parts, std::string_view scope, int64_t workers);

// The inverse. UserError if the arguments of the task are not those of a super kernel.
SuperKernel parts_of(const Task& task);

// Time in a Program is counted in steps: each task is one step, and a super kernel is one step per part.
struct Steps {
  std::vector<Lifetime> of_task;    // the first and the last step of each task
  std::vector<Lifetime> of_buffer;  // the first and the last step that touches each buffer
};

// Requires a planned Program. UserError if the arguments of a super kernel are malformed.
Steps steps_of(const Program& program);

}  // namespace npugraph::program
