// SPDX-License-Identifier: Apache-2.0
// Numbers that are the same for all shapes of a loop nest: the cuts of sums, on which rounding errors depend too, and
// limits. Internal to lower/.
#pragma once

#include <cstdint>

namespace npugraph::lower {

// Elements that one partial sum adds one by one: of a single row, and of each of several rows side by side.
inline constexpr int64_t kSumPiece = 4096;
inline constexpr int64_t kColumnSumPiece = 64;
// Elements of a piece of several columns, counted over all of them.
inline constexpr int64_t kColumnsPiece = 16384;
// Least number of columns that is enough for all threads.
inline constexpr int64_t kFewColumns = 512;
// Longest row whose values are kept.
inline constexpr int64_t kLongestKeptRow = 65536;

}  // namespace npugraph::lower
