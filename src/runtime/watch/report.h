// SPDX-License-Identifier: Apache-2.0
// Memory and traffic of a Program under given sizes. Pure functions of the sizes, so that replays count nothing.
#pragma once

#include <cstdint>
#include <vector>

#include "runtime/executable.h"
#include "runtime/instance/sizes.h"

namespace npugraph::runtime {

// Bytes that each task reads and writes; a broadcast dimension counts once, an operand that is read and written in both.
std::vector<TaskTraffic> task_traffic(const Blueprint& blueprint, const Sizes& sizes);

// The runs from the shortest to the longest.
std::vector<TimedRun> by_length(std::vector<TimedRun> runs);

// The times of tasks, of one run or more.
void add_times(const std::vector<TimedRun>& runs, std::vector<TaskTraffic>& traffic);

// The most bytes of outputs and heap buffers alive at one task.
int64_t peak_heap_bytes(const Blueprint& blueprint, const Sizes& sizes);

// Of arena, heap and results; nothing is said of offsets.
std::vector<BufferLife> lives_of(const Blueprint& blueprint, const Sizes& sizes);

LivePeak live_peak_of(const Blueprint& blueprint, const Sizes& sizes);

// Bytes written by copy-like tasks. What a run copies without a task that says so is counted where it happens
// (ng_host::count_copied).
int64_t copied_bytes(const Blueprint& blueprint, const Sizes& sizes);

}  // namespace npugraph::runtime
