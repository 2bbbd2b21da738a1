// SPDX-License-Identifier: Apache-2.0
// Which buffers are alive at the same time.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "program/offsets.h"

namespace npugraph::program {

// Built from lifetimes alone; immutable. Time is counted in ranks of distinct starts: that keeps every overlap, and
// bounds the axis by the number of buffers.
class Conflicts {
 public:
  explicit Conflicts(std::span<const Lifetime> lifetimes);

  int32_t size() const { return static_cast<int32_t>(first_.size()); }
  int32_t num_ranks() const { return num_ranks_; }
  int32_t first(int32_t buffer) const { return first_[buffer]; }
  int32_t last(int32_t buffer) const { return last_[buffer]; }
  int64_t num_pairs() const { return num_pairs_; }

  // Calls visit(other) for every other buffer whose life overlaps that of `buffer`.
  template <typename Visit>
  void for_each(int32_t buffer, Visit visit) const {
    if (!row_.empty()) {
      for (int64_t i = row_[buffer]; i < row_[buffer + 1]; ++i) visit(others_[i]);
      return;
    }
    for (int32_t other = 0; other < size(); ++other) {
      if (other != buffer && first_[other] <= last_[buffer] && first_[buffer] <= last_[other]) visit(other);
    }
  }

 private:
  void count_pairs(std::span<const int32_t> by_start);
  void list_pairs(std::span<const int32_t> by_start);

  std::vector<int32_t> first_;
  std::vector<int32_t> last_;
  int32_t num_ranks_ = 0;
  int64_t num_pairs_ = 0;
  // Row i of `others_` is [row_[i], row_[i + 1]). Both are empty when the pairs are too many to keep.
  std::vector<int64_t> row_;
  std::vector<int32_t> others_;
};

}  // namespace npugraph::program
