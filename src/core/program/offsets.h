// SPDX-License-Identifier: Apache-2.0
// Placement of arena buffers: lifetimes and sizes -> offsets, such that buffers alive at the same time do not overlap.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace npugraph::program {

// Alignment of every arena offset, in bytes: a cache line, and the widest vector.
inline constexpr int64_t kArenaAlignment = 64;

struct Lifetime {
  int32_t first = 0;  // index of the first task that touches the buffer
  int32_t last = 0;   // and of the last, inclusive
};

struct Placement {
  std::vector<int64_t> offsets;  // one per lifetime, in bytes; 0 for buffers without bytes
  int64_t arena_bytes = 0;
  int64_t lower_bound_bytes = 0;  // the most bytes alive at one task; no placement can be smaller
};

// The most bytes alive at one task, each size rounded up to kArenaAlignment.
int64_t most_alive(std::span<const Lifetime> lifetimes, std::span<const int64_t> bytes);

// Places the same buffers once per set of sizes; the conflicts of the lifetimes are computed only once. Tries the best
// order of the previous call first, then greedy placement in several orders (by size, by pressure, by area, by length
// of life, by start), then repairs of the best one, which place the buffers at the top of the arena first; stops at
// once when the lower bound is met. About O(n log n) for chains of short-lived buffers, O(n^2) at worst. Deterministic
// in the sequence of calls. Not thread-safe.
class ArenaSolver {
 public:
  explicit ArenaSolver(std::span<const Lifetime> lifetimes);
  ~ArenaSolver();
  ArenaSolver(ArenaSolver&&) noexcept;
  ArenaSolver& operator=(ArenaSolver&&) noexcept;

  // `bytes` has one size per lifetime, which is rounded up to kArenaAlignment. UserError when they add up to 2^63 bytes
  // or more.
  Placement place(std::span<const int64_t> bytes);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace npugraph::program
