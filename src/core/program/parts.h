// SPDX-License-Identifier: Apache-2.0
// Tasks that are made of others, their parts:
// - a super kernel runs its parts one after the other, as one call of the runtime
// - a group runs parts that do not depend on each other, at the same time where that is faster
// Operands, scalars and arguments of the parts follow each other.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "program/offsets.h"
#include "program/program.h"

namespace npugraph::program {

// The tasks that one task runs. Tensors in their arguments are indices into the operands of the part.
struct Parts {
  std::vector<Task> tasks;
  int64_t workers = 0;               // of a super kernel: threads that it may use at most; 0: all
  std::vector<int64_t> nanoseconds;  // of a group: about how long one thread takes for each part
};

constexpr bool has_parts(TaskKind kind) { return kind == TaskKind::kSuperKernel || kind == TaskKind::kGroup; }

// Whether a task can be a part: it neither allocates results nor defines symbols, and runs no code of the host.
bool can_be_part(const Task& task);

// Returns the task that runs `parts`: at least one, all of one stream. It is named after `scope`. A Share of a part is
// dropped if a later part touches the buffer that it reads, or an earlier part the buffer that it writes.
Task super_kernel(std::span<const Task> parts, std::string_view scope, int64_t workers);

// Returns the task that runs `parts`: at least one, all of one stream, none of which touches an element that another
// one writes. It is named after the parts. A Share of a part is dropped if another part touches one of its two buffers.
Task group(std::span<const Task> parts, const std::vector<int64_t>& nanoseconds);

// The inverse of both. UserError if the arguments of the task are not those of a task with parts.
Parts parts_of(const Task& task);

// "2x_matmul.mm.loop.add": the names of tasks, those of equal names once.
std::string label_of(std::span<const Task> tasks);

// Time in a Program is counted in steps: each task is one step, but a super kernel is one step per part.
struct Steps {
  std::vector<Lifetime> of_task;    // the first and the last step of each task
  std::vector<Lifetime> of_buffer;  // the first and the last step that touches each buffer
};

// Requires a planned Program. UserError if the arguments of a super kernel are malformed.
Steps steps_of(const Program& program);

}  // namespace npugraph::program
