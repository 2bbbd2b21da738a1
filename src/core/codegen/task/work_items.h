// SPDX-License-Identifier: Apache-2.0
// Loops over work items, and slots of scratch for them. Items do not depend on the number of threads.
#pragma once

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstdint>
#include <thread>

#include "abi/task.h"

namespace npugraph::codegen {

// Slots: parts of a task's workspace, each held by one range of a parallel loop while it runs.

// Largest number of slots that a task plans for: one for each thread of the machine, up to 64.
inline int most_slots() {
  static const int slots = std::clamp(static_cast<int>(std::thread::hardware_concurrency()), 1, 64);
  return slots;
}

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

// For numbers that are not negative.
inline int64_t divide_up(int64_t x, int64_t y) { return (x + y - 1) / y; }
inline int64_t round_up(int64_t x, int64_t to) { return divide_up(x, to) * to; }

// Multiplications per thread below which a second thread costs more than it saves.
inline constexpr int64_t kGrainMultiplications = 1 << 17;

inline int64_t grain_of(int64_t multiplications_each) {
  return std::max<int64_t>(kGrainMultiplications / std::max<int64_t>(multiplications_each, 1), 1);
}

// body(first, last) for ranges of at least `grain` items.
template <typename Body>
void for_grains(const ng_host& host, int64_t items, int64_t grain, Body body) {
  if (items <= grain) return body(0, items);
  host.parallel_for(
      &host, 0, items, grain, [](void* arg, int64_t first, int64_t last) { (*static_cast<Body*>(arg))(first, last); },
      &body);
}

// body(first, last) for ranges of items.
template <typename Body>
void for_ranges(const ng_host& host, int64_t items, int64_t multiplications_each, Body body) {
  for_grains(host, items, grain_of(multiplications_each), body);
}

// Memory for `slots` ranges at a time, `bytes` each.
struct Scratch {
  char* memory = nullptr;
  int64_t bytes = 0;
  int slots = 1;
};

// body(first, last, memory) for ranges of items; no other range uses that memory at the same time.
template <typename Body>
void for_ranges(const ng_host& host, int64_t items, int64_t multiplications_each, const Scratch& scratch, Body body) {
  Slots slots(scratch.slots);
  const int64_t grain = grain_of(multiplications_each);
  for_grains(host, items, grain_for(host, scratch.slots, items, grain), [&](int64_t first, int64_t last) {
    const int slot = slots.take();
    body(first, last, scratch.memory + slot * scratch.bytes);
    slots.give_back(slot);
  });
}

// body(item) for each.
template <typename Body>
void for_items(const ng_host& host, int64_t items, int64_t multiplications_each, Body body) {
  for_ranges(host, items, multiplications_each, [&](int64_t first, int64_t last) {
    for (int64_t i = first; i < last; ++i) body(i);
  });
}

// body(item) for each; a thread that is done takes the next item. For few and large items.
template <typename Body>
void for_items_by_turns(const ng_host& host, int64_t items, int64_t multiplications_each, Body body) {
  if (items * std::max<int64_t>(multiplications_each, 1) <= kGrainMultiplications || host.workers == 1)
    return for_items(host, items, multiplications_each, body);
  std::atomic<int64_t> next = 0;
  const auto take = [&](int64_t, int64_t) {
    for (int64_t i = next.fetch_add(1, std::memory_order_relaxed); i < items;
         i = next.fetch_add(1, std::memory_order_relaxed))
      body(i);
  };
  for_ranges(host, host.workers, kGrainMultiplications, take);
}

}  // namespace npugraph::codegen
