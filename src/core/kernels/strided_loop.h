// SPDX-License-Identifier: Apache-2.0
// A loop nest over several strided windows of one shape: broadcast, sorted and collapsed once, so that a run is a few
// long rows.
#pragma once

#include <array>
#include <cstdint>

#include "abi/task.h"

namespace npugraph::kernels {

inline constexpr int kMaxRank = 8;
inline constexpr int kMaxWindows = 4;

// One row: `count` elements, at steps of `strides[w]` bytes in window w.
struct Row {
  std::array<char*, kMaxWindows> data;
  std::array<int64_t, kMaxWindows> strides;
  int64_t count;
};

class StridedLoop {
 public:
  // Starts over with the sizes of `shape` and no windows. False if it has more than kMaxRank dimensions.
  bool reset(const ng_buffer& shape);
  // Adds a window that broadcasts to the shape: right-aligned, sizes of 1 repeat. False if it does not broadcast.
  bool add(const ng_buffer& window, int64_t element_bytes);
  // Adds a window of one element that repeats.
  void add_scalar();
  // Sorts dimensions by the strides of window `leader`, outermost first, drops those of size 1 and merges neighbours
  // that are dense in every window. Requires that all windows were added.
  void collapse(int leader);

  int64_t count() const;
  // Calls `row(const Row&)` for the elements [begin, end) of the collapsed nest; `data` points at the first element of
  // each window.
  template <typename Fn>
  void run(const std::array<char*, kMaxWindows>& data, int64_t begin, int64_t end, Fn row) const;

 private:
  int rank_ = 0;
  int windows_ = 0;
  std::array<int64_t, kMaxRank> sizes_{};
  std::array<std::array<int64_t, kMaxWindows>, kMaxRank> strides_{};  // bytes
};

template <typename Fn>
void StridedLoop::run(const std::array<char*, kMaxWindows>& data, int64_t begin, int64_t end, Fn row) const {
  if (begin >= end) return;
  const int inner = rank_ - 1;  // collapse() leaves at least one dimension
  std::array<int64_t, kMaxRank> index{};
  Row current{data, strides_[inner], 0};
  int64_t rest = begin;
  for (int d = inner; d >= 0; --d) {
    index[d] = rest % sizes_[d];
    rest /= sizes_[d];
    for (int w = 0; w < windows_; ++w) current.data[w] += index[d] * strides_[d][w];
  }
  for (int64_t at = begin; at < end;) {
    const int64_t left = sizes_[inner] - index[inner];
    current.count = left < end - at ? left : end - at;
    row(static_cast<const Row&>(current));
    at += current.count;
    if (at == end) return;
    for (int w = 0; w < windows_; ++w) current.data[w] -= index[inner] * strides_[inner][w];
    index[inner] = 0;
    for (int d = inner - 1; d >= 0; --d) {
      for (int w = 0; w < windows_; ++w) current.data[w] += strides_[d][w];
      if (++index[d] < sizes_[d]) break;
      for (int w = 0; w < windows_; ++w) current.data[w] -= sizes_[d] * strides_[d][w];
      index[d] = 0;
    }
  }
}

}  // namespace npugraph::kernels
