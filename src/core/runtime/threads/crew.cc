// SPDX-License-Identifier: Apache-2.0
#include "runtime/threads/crew.h"

#include <algorithm>

namespace npugraph::runtime {
namespace {

thread_local Crew* led_by_this_thread = nullptr;

}  // namespace

Crew* Crew::own() { return led_by_this_thread; }

void Crew::lead(int32_t id, void (*body)(void* arg), void* arg) {
  members_[0].id.store(id, std::memory_order_relaxed);
  led_by_this_thread = this;
  body(arg);
  led_by_this_thread = nullptr;
  over_.store(true, std::memory_order_release);
}

void Crew::help(int32_t rank, int32_t id) {
  members_[rank].id.store(id, std::memory_order_relaxed);
  const auto may_work = [&] { return rank < size() && queue_.has_ranges(); };
  for (;;) {
    spin_until([&] { return may_work() || over_.load(std::memory_order_acquire); });
    if (!may_work()) return;
    take_ranges(rank);
  }
}

void Crew::take_ranges(int32_t rank) {
  queue_.take_ranges(rank, [&](uint64_t number) { members_[rank].region.store(number, std::memory_order_relaxed); });
}

void Crew::limit(int32_t threads) { active_.store(std::clamp(threads, 1, threads_), std::memory_order_relaxed); }

void Crew::parallel_for(int64_t begin, int64_t end, int64_t grain, RangeBody body, void* arg) {
  const int64_t most = std::min<int64_t>(kRangesPerThread * size(), (end - begin) / std::max<int64_t>(grain, 1));
  if (size() == 1 || most <= 1 || in_region_) return body(arg, begin, end);
  const int64_t length = (end - begin + most - 1) / most;
  const auto ranges = static_cast<uint32_t>((end - begin + length - 1) / length);
  in_region_ = true;
  queue_.publish({body, arg, begin, end, length, fp_control(), ++regions_}, ranges, size());
  take_ranges(0);
  queue_.await_all(ranges);
  in_region_ = false;
}

std::vector<int32_t> Crew::workers_since(uint64_t regions) const {
  std::vector<int32_t> ids{members_[0].id.load(std::memory_order_relaxed)};
  for (int32_t rank = 1; rank < threads_; ++rank) {
    if (members_[rank].region.load(std::memory_order_relaxed) > regions)
      ids.push_back(members_[rank].id.load(std::memory_order_relaxed));
  }
  return ids;
}

}  // namespace npugraph::runtime
