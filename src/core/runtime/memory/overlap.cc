// SPDX-License-Identifier: Apache-2.0
#include "runtime/memory/overlap.h"

#include <algorithm>
#include <numeric>

namespace npugraph::runtime {
namespace {

constexpr size_t kFew = 16;  // moved ranges up to which comparing each with all beats sorting all

}  // namespace

OverlapCheck::OverlapCheck(const std::vector<bool>& written)
    : num_written_(static_cast<int32_t>(std::ranges::count(written, true))),
      position_(written.size()),
      first_(written.size()),
      end_(written.size()) {
  int32_t next_written = 0;
  int32_t next_read = num_written_;
  for (size_t i = 0; i < written.size(); ++i) position_[i] = written[i] ? next_written++ : next_read++;
}

void OverlapCheck::set(int32_t range, const void* data, int64_t bytes) {
  const auto first = reinterpret_cast<uintptr_t>(data);
  first_[position_[range]] = first;
  end_[position_[range]] = first + bytes;
}

bool OverlapCheck::overlaps(std::span<const int32_t> moved) const {
  if (num_written_ == 0) return false;
  if (moved.size() > kFew) return overlaps_all();
  return std::ranges::any_of(moved, [&](int32_t range) { return overlaps_one(position_[range]); });
}

bool OverlapCheck::overlaps_one(int32_t position) const {
  const uintptr_t first = first_[position];
  const uintptr_t end = end_[position];
  if (first == end) return false;
  const bool is_written = position < num_written_;
  const size_t others = is_written ? first_.size() : num_written_;
  int32_t hits = 0;
  for (size_t i = 0; i < others; ++i) hits += (first_[i] < end) & (first < end_[i]) & (first_[i] < end_[i]);
  return hits > (is_written ? 1 : 0);  // a written range overlaps itself
}

// Sweeps the ranges by address. It is enough to keep the furthest end of all ranges so far, and of the written ones.
bool OverlapCheck::overlaps_all() const {
  std::vector<int32_t> order(first_.size());
  std::iota(order.begin(), order.end(), 0);
  std::erase_if(order, [&](int32_t i) { return first_[i] == end_[i]; });
  std::ranges::sort(order, {}, [&](int32_t i) { return first_[i]; });
  uintptr_t any_end = 0;
  uintptr_t written_end = 0;
  for (const int32_t i : order) {
    const bool is_written = i < num_written_;
    if (first_[i] < (is_written ? any_end : written_end)) return true;
    any_end = std::max(any_end, end_[i]);
    if (is_written) written_end = std::max(written_end, end_[i]);
  }
  return false;
}

}  // namespace npugraph::runtime
