// SPDX-License-Identifier: Apache-2.0
// Membership in short lists of ids. Internal to lower/.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

namespace npugraph::lower {

// Takes time linear in the length of the list.
inline bool contains(const std::vector<int32_t>& list, int32_t wanted) {
  return std::find(list.begin(), list.end(), wanted) != list.end();
}

}  // namespace npugraph::lower
