// SPDX-License-Identifier: Apache-2.0
// The shapes into which a loop nest may be cut, of which the cheapest is taken, their limits and their costs.
#pragma once

#include <climits>
#include <cstdint>
#include <string>
#include <vector>

#include "loop/kernel.h"
#include "lower/terms/terms.h"
#include "target/target.h"

namespace npugraph::lower {

// All shapes compute the same values, except for the order of sums that threads share.
struct NestShape {
  int64_t grain = 16384;  // elements that are worth a thread
  int64_t piece = 4096;   // elements of a piece of a long row, where it may be cut anywhere
  int64_t columns = 64;   // neighbouring rows that are combined together
  int64_t tile = 32;      // side of the tiles of operands that are transposed
  int keep_cost = 8;      // values of earlier walks that cost at least this much stay in local rows
  bool splits = false;    // threads share rows

  static constexpr int kKeepsNothing = INT_MAX;
  bool operator==(const NestShape&) const = default;
};

// "grain 16384 piece 1024 ...": the grain, then the members that differ from their defaults.
std::string str(const NestShape& shape);

// The shapes that a nest of the terms may have, the default one first. Those that differ only in the
// grain are adjacent.
std::vector<NestShape> nest_shapes(const Terms& terms, const std::vector<ir::ValueId>& results);

// Numbers that are the same for all shapes of a loop nest: the cuts of sums, on which rounding errors depend too, and
// limits. Internal to lower/.

// Elements that one partial sum adds one by one: of a single row, and of each of several rows side by side.
inline constexpr int64_t kSumPiece = 4096;
inline constexpr int64_t kColumnSumPiece = 64;
// Elements of a piece of several columns, counted over all of them.
inline constexpr int64_t kColumnsPiece = 16384;
// Least number of columns that is enough for all threads.
inline constexpr int64_t kFewColumns = 512;
// Longest row whose values are kept.
inline constexpr int64_t kLongestKeptRow = 65536;

// The approximate time of a kernel on a target, by which nests are compared. Internal to lower/.

// In nanoseconds, from its statements, the bytes that these move, and the threads that its parallel loops start. A
// symbolic size may be small or large: the cost of a kernel with symbols is the sum of its costs at a small and at
// a large size.
double cost_of(const loop::Kernel& kernel, const target::Target& target);

}  // namespace npugraph::lower
