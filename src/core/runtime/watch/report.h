// SPDX-License-Identifier: Apache-2.0
// Memory and traffic of a Program under given sizes. Pure functions of the sizes, so that replays need not count
// anything.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "runtime/instance/sizes.h"
#include "runtime/observation.h"

namespace npugraph::runtime {

// Bytes that each task reads and writes. A broadcast dimension counts once; an operand that is read and written counts
// as both.
std::vector<TaskTraffic> task_traffic(const Blueprint& blueprint, const Sizes& sizes);

// Sorts the runs from the shortest to the longest.
std::vector<TimedRun> by_length(std::vector<TimedRun> runs);

// Sets the times in `traffic` from `runs`, of which there is at least one.
void add_times(const std::vector<TimedRun>& runs, std::vector<TaskTraffic>& traffic);

// The most bytes of outputs and heap buffers alive at one task.
int64_t peak_heap_bytes(const Blueprint& blueprint, const Sizes& sizes);

// The lives of arena, heap and output buffers, without offsets.
std::vector<BufferLife> lives_of(const Blueprint& blueprint, const Sizes& sizes);

// nullopt if no such buffer is ever alive.
std::optional<LivePeak> live_peak_of(const Blueprint& blueprint, const Sizes& sizes);

// Bytes of operands that tasks declare as copied. Other copies of a run are counted where they happen
// (ng_host::count_copied).
int64_t copied_bytes(const Blueprint& blueprint, const Sizes& sizes);

}  // namespace npugraph::runtime
