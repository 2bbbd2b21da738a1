// SPDX-License-Identifier: Apache-2.0
// Rough costs of the parts of a computation on one core, for comparing candidates with each other, not for predictions.
#pragma once

#include <cstdint>

#include "target/target.h"

namespace npugraph::target {

// In nanoseconds.
struct Costs {
  double instruction = 0;   // one instruction on a whole vector, with many of them in flight
  double multiply = 0;      // one vector multiply-add, if the processor does nothing else
  double amx_multiply = 0;  // the same for one vector in AMX tiles
  double iteration = 0;     // overhead of one loop iteration
  double loop = 0;          // entering and leaving a loop over vectors
  double element = 0;       // one element of a vector whose elements are not adjacent in memory
  double line = 0;          // surcharge for a piece of memory that does not follow the previous one
  double region = 0;        // starting the threads of a parallel loop and waiting for the last one
  double range = 0;         // handing one range of iterations to a thread
  // One byte read from or written to a cache or memory. A byte in the first-level cache costs only its instructions.
  double l2_byte = 0;
  double l3_byte = 0;
  double memory_byte = 0;
  double handed_byte = 0;  // one byte that another core wrote last
};

Costs costs_of(const Target& target);

// Cost of one byte out of `bytes` that are used again and again.
double byte_cost(const Target& target, double bytes);

// Number of items that the busier of two threads works on, if ranges hold at least `grain` items. The number includes a
// part of a range, for the wait for the other thread's last range. Choices always assume two threads, because they must
// not depend on the actual number of threads.
double share_of(int64_t items, int64_t grain);
// Number of ranges that the items are split into.
int64_t ranges_of(int64_t items, int64_t grain);

}  // namespace npugraph::target
