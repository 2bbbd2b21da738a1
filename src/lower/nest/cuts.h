// SPDX-License-Identifier: Apache-2.0
// What no shape of a loop nest changes: how sums are cut, which is a matter of their errors too, and limits. Internal to lower/.
#pragma once

#include <cstdint>

namespace npugraph::lower {

// Elements that one sum takes up one by one, of a row and of one of several side by side.
inline constexpr int64_t kSumPiece = 4096;
inline constexpr int64_t kColumnSumPiece = 64;
// Elements of a piece of several columns.
inline constexpr int64_t kColumnsPiece = 16384;
// Columns from which on there are enough of them for all threads.
inline constexpr int64_t kFewColumns = 512;
// The longest row of which values are kept.
inline constexpr int64_t kLongestKeptRow = 65536;

}  // namespace npugraph::lower
