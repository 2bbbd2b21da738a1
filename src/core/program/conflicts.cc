// SPDX-License-Identifier: Apache-2.0
#include "program/conflicts.h"

#include <algorithm>
#include <numeric>

#include "base/error.h"

namespace npugraph::program {
namespace {

constexpr int64_t kMostPairsKept = 4'000'000;  // 32 MB

}  // namespace

Conflicts::Conflicts(std::span<const Lifetime> lifetimes) {
  std::vector<int32_t> starts;
  starts.reserve(lifetimes.size());
  for (const Lifetime& life : lifetimes) {
    NG_CHECK(life.first >= 0 && life.first <= life.last, "a life of (", life.first, ", ", life.last, ")");
    starts.push_back(life.first);
  }
  std::sort(starts.begin(), starts.end());
  starts.erase(std::unique(starts.begin(), starts.end()), starts.end());
  num_ranks_ = static_cast<int32_t>(starts.size());

  const auto rank_after = [&](int32_t task) {
    return static_cast<int32_t>(std::upper_bound(starts.begin(), starts.end(), task) - starts.begin());
  };
  for (const Lifetime& life : lifetimes) {
    first_.push_back(rank_after(life.first) - 1);
    last_.push_back(rank_after(life.last) - 1);
  }

  std::vector<int32_t> by_start(lifetimes.size());
  std::iota(by_start.begin(), by_start.end(), 0);
  std::stable_sort(by_start.begin(), by_start.end(), [&](int32_t a, int32_t b) { return first_[a] < first_[b]; });
  count_pairs(by_start);
  if (num_pairs_ <= kMostPairsKept) list_pairs(by_start);
}

// A buffer that starts later overlaps `buffer` when it starts before `buffer` ends: the buffers after it in order of
// start, up to the first that starts too late.
void Conflicts::count_pairs(std::span<const int32_t> by_start) {
  std::vector<int64_t> started(num_ranks_ + 1, 0);  // buffers with a start before rank i
  for (const int32_t buffer : by_start) ++started[first_[buffer] + 1];
  std::partial_sum(started.begin(), started.end(), started.begin());
  for (int64_t i = 0; i < static_cast<int64_t>(by_start.size()); ++i) {
    num_pairs_ += started[last_[by_start[i]] + 1] - i - 1;
  }
}

void Conflicts::list_pairs(std::span<const int32_t> by_start) {
  const auto for_each_pair = [&](auto visit) {
    for (size_t i = 0; i < by_start.size(); ++i) {
      for (size_t j = i + 1; j < by_start.size() && first_[by_start[j]] <= last_[by_start[i]]; ++j) {
        visit(by_start[i], by_start[j]);
      }
    }
  };
  row_.assign(by_start.size() + 1, 0);
  for_each_pair([&](int32_t a, int32_t b) { ++row_[a + 1], ++row_[b + 1]; });
  std::partial_sum(row_.begin(), row_.end(), row_.begin());
  others_.resize(2 * num_pairs_);
  std::vector<int64_t> next(row_.begin(), row_.end() - 1);
  for_each_pair([&](int32_t a, int32_t b) {
    others_[next[a]++] = b;
    others_[next[b]++] = a;
  });
}

}  // namespace npugraph::program
