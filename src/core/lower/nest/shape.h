// SPDX-License-Identifier: Apache-2.0
// The shapes into which a loop nest may be cut, of which the cheapest is taken (nest/cost.h).
#pragma once

#include <climits>
#include <cstdint>
#include <string>
#include <vector>

#include "lower/terms/terms.h"

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

}  // namespace npugraph::lower
