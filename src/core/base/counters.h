// SPDX-License-Identifier: Apache-2.0
// Named counters. Thread-safe. A counter only rises, unless it counts things that may be dropped.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <string_view>

namespace npugraph {

class Counter {
 public:
  void add(int64_t n = 1) { value_.fetch_add(n, std::memory_order_relaxed); }
  int64_t value() const { return value_.load(std::memory_order_relaxed); }

 private:
  std::atomic<int64_t> value_ = 0;
};

class CounterSet {
 public:
  using Snapshot = std::map<std::string, int64_t>;

  // The counter of this name, made at 0 when it is new. The reference stays valid for the life of this object; keep it
  // where the look-up costs too much.
  Counter& at(std::string_view name);

  // The values of all counters. Counters that rise meanwhile may be read before or after.
  Snapshot snapshot() const;

 private:
  mutable std::mutex mutex_;  // guards the map, not the values
  std::map<std::string, Counter, std::less<>> counters_;
};

// The counters of the process: sums over everything that it has compiled and run, including what is destroyed by now.
CounterSet& process_counters();

}  // namespace npugraph
