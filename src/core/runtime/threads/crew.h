// SPDX-License-Identifier: Apache-2.0
// Threads of the pool that work for one strand of a replay: one leads, the others help in its parallel regions.
//
// Each leader and helper calls its function from a thread of its own; nothing else is thread-safe.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "runtime/threads/range_queue.h"

namespace npugraph::runtime {

class Crew {
 public:
  explicit Crew(int32_t threads) : members_(std::make_unique<Member[]>(threads)), threads_(threads) {}

  // The crew that the calling thread leads; null in all other threads.
  static Crew* own();

  // Calls body(arg) as the leader, thread `id` of the pool.
  void lead(int32_t id, void (*body)(void* arg), void* arg);
  // Helps as member `rank`, which is thread `id`, until the leader's body has returned.
  void help(int32_t rank, int32_t id);

  // Called by the leader: at most `threads` members take part in later regions.
  void limit(int32_t threads);
  int32_t size() const { return active_.load(std::memory_order_relaxed); }
  // Like WorkerPool::parallel_for, but only in the threads of the crew.
  void parallel_for(int64_t begin, int64_t end, int64_t grain, RangeBody body, void* arg);
  uint64_t regions() const { return regions_; }
  // Ids of the threads that took part in a region after the first `regions`, the leader's first.
  std::vector<int32_t> workers_since(uint64_t regions) const;

 private:
  struct alignas(kCacheLine) Member {
    std::atomic<int32_t> id{0};
    std::atomic<uint64_t> region{0};  // the last one in which it took part
  };
  void take_ranges(int32_t rank);

  const std::unique_ptr<Member[]> members_;
  const int32_t threads_;
  std::atomic<int32_t> active_{threads_};
  uint64_t regions_ = 0;
  bool in_region_ = false;
  RangeQueue queue_;
  std::atomic<bool> over_{false};
};

}  // namespace npugraph::runtime
