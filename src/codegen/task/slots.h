// SPDX-License-Identifier: Apache-2.0
// Parts of a task's workspace that ranges of a parallel loop hold while they run.
#pragma once

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstdint>

#include "abi/task.h"

namespace npugraph::codegen {

// As many parts as a task plans for at most: one for each thread of the machine, up to 64.
int most_slots();

// Which of some parts, up to most_slots(), are free. Thread-safe.
class Slots {
 public:
  explicit Slots(int count = most_slots()) : free_(~uint64_t{0} >> (64 - count)) {}

  // One that nobody has. Waits if there is none, which grain_for() prevents.
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

// A grain that lets no more ranges run at once than there are slots.
inline int64_t grain_for(const ng_host& host, int slots, int64_t extent, int64_t grain) {
  return host.workers > slots ? std::max(grain, (extent + slots - 1) / slots) : grain;
}

}  // namespace npugraph::codegen
