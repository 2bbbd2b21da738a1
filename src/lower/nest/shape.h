// SPDX-License-Identifier: Apache-2.0
// Into what a loop nest may be cut: the candidates, of which the cheapest is taken (nest/cost.h).
#pragma once

#include <climits>
#include <cstdint>
#include <string>
#include <vector>

#include "lower/terms/terms.h"

namespace npugraph::lower {

// All shapes compute the same values, but for the order of sums that threads share.
struct NestShape {
  int64_t grain = 16384;  // elements that are worth a thread
  int64_t piece = 4096;   // elements of a piece of a long row, where it may be cut anywhere
  int64_t columns = 64;   // rows side by side that are combined together
  int64_t tile = 32;      // sides of a tile of what is transposed
  int keep_cost = 8;      // values of earlier walks that cost so much stay in local rows
  bool splits = false;    // threads share rows

  static constexpr int kKeepsNothing = INT_MAX;
  bool operator==(const NestShape&) const = default;
};

// "grain 16384 piece 4096 ...", what differs from the usual alone where there is any.
std::string str(const NestShape& shape);

// Those that a nest of the terms may have, the usual one first; neighbours in the list differ in the grain where they can.
std::vector<NestShape> nest_shapes(const Terms& terms, const std::vector<ir::ValueId>& results);

}  // namespace npugraph::lower
