// SPDX-License-Identifier: Apache-2.0
// What the parts of a computation take on one core, roughly: for comparing candidates with each other, not for predictions.
#pragma once

#include <cstdint>

#include "target/target.h"

namespace npugraph::target {

// In nanoseconds.
struct Costs {
  double instruction = 0;   // on whole vectors, many of them under way
  double multiply = 0;      // and add, where the processor does nothing else
  double amx_multiply = 0;  // the same of one vector in tiles of AMX
  double iteration = 0;     // of a loop, beside its body
  double loop = 0;          // entering and leaving a loop over vectors
  double element = 0;       // of a vector whose elements do not lie side by side
  double line = 0;          // more, for a piece of memory that does not follow the one before
  double region = 0;        // threads start, and the last one is waited for
  double range = 0;         // of iterations, which a thread takes
  // Bytes that come from, or go to, caches and memory; what the first cache holds costs its instructions alone.
  double l2_byte = 0;
  double l3_byte = 0;
  double memory_byte = 0;
  double handed_byte = 0;  // that another core wrote last
};

Costs costs_of(const Target& target);

// Of a byte of so many that are used again and again.
double byte_cost(const Target& target, double bytes);

// Of so many items, at least `grain` of them together, those that the busiest of two threads works on. Choices count on two:
// how many there are, they must not depend on. It waits for a part of what the other one took last.
double share_of(int64_t items, int64_t grain);
// Ranges that the items are cut into.
int64_t ranges_of(int64_t items, int64_t grain);

}  // namespace npugraph::target
