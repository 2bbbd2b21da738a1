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

// What a super kernel runs: tasks, in order, whose operands are indices into themselves.
struct SuperKernel {
  std::vector<Task> parts;
  int64_t workers = 0;  // threads that it may use at most; 0: all
};

// Whether a task can be a part: it neither allocates results nor defines symbols, and runs no code of the host.
bool can_be_part(const Task& task);

// The task that runs `parts`, at least one, all of one stream. Its operands are theirs, one after the other; it is named after
// `scope`. An in-place result of a part stays one where no other part comes between.
Task super_kernel(std::span<const Task> parts, std::string_view scope, int64_t workers);

// The inverse. UserError where the arguments of the task are not those of a super kernel.
SuperKernel parts_of(const Task& task);

// Time in a Program counts steps: a task is one, a super kernel one for each of its parts.
struct Steps {
  std::vector<Lifetime> of_task;    // the steps of each task
  std::vector<Lifetime> of_buffer;  // those in which it is touched, from the first to the last; of a planned Program
};

// UserError where a super kernel is none.
Steps steps_of(const Program& program);

}  // namespace npugraph::program
