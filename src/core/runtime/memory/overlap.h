// SPDX-License-Identifier: Apache-2.0
// Checks whether an input that a Program writes overlaps another input. AOTAutograd compiles for the aliasing that it
// saw and does not check again; we check the ranges that moved at each call.
//
// Not thread-safe: belongs to one Instance.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace npugraph::runtime {

// Whether the ranges overlap. An empty range overlaps what it lies inside of.
inline bool overlap(std::span<const std::byte> a, std::span<const std::byte> b) {
  return a.data() < b.data() + b.size() && b.data() < a.data() + a.size();
}

class OverlapCheck {
 public:
  // One entry per range: whether it is written. Ranges are empty until they are set.
  explicit OverlapCheck(const std::vector<bool>& written);

  bool any_written() const { return num_written_ > 0; }
  void set(int32_t range, const void* data, int64_t bytes);

  // Whether a written range overlaps another one; ranges that did not move are known to be free of overlaps. The cost
  // is linear in the ranges for a few that moved, O(n log n) for many.
  bool overlaps(std::span<const int32_t> moved) const;

 private:
  bool overlaps_one(int32_t position) const;
  bool overlaps_all() const;

  // Written ranges stand first, so that a range that is only read looks at them alone.
  int32_t num_written_ = 0;
  std::vector<int32_t> position_;
  std::vector<uintptr_t> first_;
  std::vector<uintptr_t> end_;
};

}  // namespace npugraph::runtime
