// SPDX-License-Identifier: Apache-2.0
// Into what loop nests cut their spaces. Internal to lower/.
#pragma once

#include <cstdint>

namespace npugraph::lower {

// Elements that are worth a thread, and those of one piece of a long row.
inline constexpr int64_t kGrainElements = 16384;
inline constexpr int64_t kPieceElements = 4096;
// Rows side by side that are combined together, and elements of each that one sum takes up one by one.
inline constexpr int64_t kColumns = 64;
inline constexpr int64_t kColumnPiece = 64;
// Sides of a tile of what is transposed.
inline constexpr int64_t kTile = 32;
// Columns below which, and elements from which on, a few rows are cut for several threads.
inline constexpr int64_t kFewColumns = 8 * kColumns;
inline constexpr int64_t kSplitElements = 32768;
// Costs from which on a value of an earlier walk is kept, and the longest row that is.
inline constexpr int kKeepCost = 8;
inline constexpr int64_t kLongestKeptRow = 65536;

}  // namespace npugraph::lower
