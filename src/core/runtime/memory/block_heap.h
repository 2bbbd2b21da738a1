// SPDX-License-Identifier: Apache-2.0
// Blocks of different sizes cut from larger slabs of memory. Free neighbours within a slab become one, so that memory
// which served some sizes can serve others: gradients take the memory of the activations that they were computed from.
//
// A block comes from a range that it nearly fills, or else from the largest one: its rest is likely to become one with
// what is freed next. Not thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <span>
#include <utility>
#include <vector>

namespace npugraph::runtime {

class BlockHeap {
 public:
  using Slab = std::span<std::byte>;
  // Sizes of blocks are rounded up to multiples of this.
  static constexpr int64_t kGranule = 4096;
  static constexpr int64_t rounded(int64_t bytes) { return (bytes + kGranule - 1) / kGranule * kGranule; }

  // A block of at least `bytes` from the slabs; null if none has that much room.
  std::byte* take(int64_t bytes);
  // Takes back a block of take(`bytes`).
  void give_back(std::byte* block, int64_t bytes);

  // The size that a slab for a block of `bytes` should have: as the heap grows, slabs do, up to kMostOfSlab. After
  // consolidate() it has room for all blocks that were taken at once before.
  int64_t wanted_slab(int64_t bytes) const;
  static constexpr int64_t kMostOfSlab = 64 << 20;  // unless one block needs more
  // Adds a slab of whole granules, all of it free; it must stay valid until shed() or consolidate() returns it.
  void add(Slab slab);
  // Removes slabs without blocks, those that have been idle for longest first, until at most `limit` bytes are spare or
  // all slabs have blocks. Returns them.
  std::vector<Slab> shed(int64_t limit);
  // If there are no blocks, and slabs are larger than all blocks that were taken at once: removes all slabs and returns
  // them, so that one slab can take their place. Does so once for each such sum of blocks.
  std::vector<Slab> consolidate();

  int64_t spare_bytes() const { return spare_bytes_; }
  int64_t used_bytes() const { return used_bytes_; }

 private:
  struct Range {
    int64_t bytes = 0;
    std::byte* slab = nullptr;
    // Blocks are cut from its end. The other end is the one at which it grew last and is likely to grow next: a
    // backward pass frees activations in order.
    bool from_end = false;
  };
  struct State {
    int64_t bytes = 0;
    uint64_t last_taken = 0;  // when a block was last cut from it, counted in blocks
  };
  using Ranges = std::map<std::byte*, Range>;  // by address

  void add_free(std::byte* at, Range range);
  Ranges::iterator remove_free(Ranges::iterator range);

  Ranges free_;
  std::set<std::pair<int64_t, std::byte*>> by_size_;  // the ranges of free_
  std::map<std::byte*, State> slabs_;                 // by address
  int64_t spare_bytes_ = 0, used_bytes_ = 0;
  int64_t most_used_ = 0;           // the largest used_bytes_ since the heap was last without slabs
  int64_t consolidated_bytes_ = 0;  // most_used_ at the latest consolidate()
  uint64_t blocks_taken_ = 0;
};

}  // namespace npugraph::runtime
