// SPDX-License-Identifier: Apache-2.0
#include "kernels/strided_loop.h"

#include <algorithm>
#include <numeric>

namespace npugraph::kernels {

bool StridedLoop::reset(const ng_buffer& shape) {
  *this = {};
  if (shape.rank > kMaxRank) return false;
  rank_ = shape.rank;
  std::copy_n(shape.sizes, rank_, sizes_.begin());
  return true;
}

bool StridedLoop::add(const ng_buffer& window, int64_t element_bytes) {
  if (window.rank > rank_ || windows_ == kMaxWindows) return false;
  const int missing = rank_ - window.rank;
  for (int d = 0; d < window.rank; ++d) {
    const bool repeats = window.sizes[d] == 1;
    if (!repeats && window.sizes[d] != sizes_[d + missing]) return false;
    strides_[d + missing][windows_] = repeats ? 0 : window.strides[d] * element_bytes;
  }
  ++windows_;
  return true;
}

void StridedLoop::add_scalar() { ++windows_; }

void StridedLoop::collapse(int leader) {
  std::array<int, kMaxRank> order;
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.begin() + rank_,
                   [&](int a, int b) { return strides_[a][leader] > strides_[b][leader]; });
  const auto old_sizes = sizes_;
  const auto old_strides = strides_;
  int kept = 0;
  for (int i = 0; i < rank_; ++i) {
    const int d = order[i];
    if (old_sizes[d] == 1) continue;
    bool merges = kept > 0;
    for (int w = 0; merges && w < windows_; ++w) merges = strides_[kept - 1][w] == old_strides[d][w] * old_sizes[d];
    if (!merges) sizes_[kept++] = 1;
    sizes_[kept - 1] *= old_sizes[d];
    strides_[kept - 1] = old_strides[d];
  }
  if (kept == 0) {  // one element
    sizes_[0] = 1;
    strides_[0] = {};
    kept = 1;
  }
  rank_ = kept;
}

int64_t StridedLoop::count() const {
  int64_t count = 1;
  for (int d = 0; d < rank_; ++d) count *= sizes_[d];
  return count;
}

}  // namespace npugraph::kernels
