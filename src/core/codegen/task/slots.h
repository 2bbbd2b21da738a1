// SPDX-License-Identifier: Apache-2.0
// Slots: parts of a task's workspace, each held by one range of a parallel loop while it runs.
#pragma once

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstdint>

#include "abi/task.h"

namespace npugraph::codegen {

// Largest number of slots that a task plans for: one for each thread of the machine, up to 64.
int most_slots();

// Keeps track of which of `count` slots, at most 64, are free. Thread-safe.
class Slots {
 public:
  explicit Slots(int count = most_slots()) : free_(~uint64_t{0} >> (64 - count)) {}

  // Takes a free slot. Waits if there is none, which grain_for() prevents.
  int take() {
    uint64_t free = free_.load(std::memory_order_relaxed);
    while (free == 0 || !free_.compare_exchange_weak(free, free & (free - 1), std::memory_order_acquire)) {
      if (free == 0) free = free_.load(std::memory_order_relaxed);
    }
    return std::countr_zero(free);
  }
  void give_back(int slot) { free_.fetch_or(uint64_t{1} << slot, std::memory_order_release); }

 private:
  std::atomic<uint64_t> free_;
};

// Returns a grain with which at most `slots` ranges run at the same time.
inline int64_t grain_for(const ng_host& host, int slots, int64_t extent, int64_t grain) {
  return host.workers > slots ? std::max(grain, (extent + slots - 1) / slots) : grain;
}

}  // namespace npugraph::codegen
