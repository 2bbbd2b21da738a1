// SPDX-License-Identifier: Apache-2.0
// Blocks of memory that results gave back, kept for the next call: fresh pages cost more than most kernels that fill
// them. Torch's CPU allocator makes the blocks. Thread-safe.
#pragma once

#include <atomic>
#include <cstddef>
#include <deque>
#include <memory>
#include <mutex>

#include <c10/core/Allocator.h>

#include "base/fork.h"
#include "runtime/memory/pools.h"

namespace npugraph::bridge {

class SpareMemory {
 public:
  static SpareMemory& instance();

  // Smaller blocks come and go as torch's allocator has them: malloc keeps those. Of larger ones it gives the pages back to
  // the system, each block by itself or what is free at the end of its memory.
  static constexpr size_t kLeastBytes = 32 << 10;

  // 64-byte aligned memory of at least `bytes`, whose content is anything.
  c10::DataPtr allocate(size_t bytes);
  // A call took so many bytes in all: of those that come back, as many are kept.
  void expect(size_t bytes);
  // Frees what is spare, and forgets what calls took, also those of others: the next calls make it known again.
  void trim();

 private:
  struct Block {
    c10::DataPtr memory;
    size_t bytes;
  };
  using Blocks = std::deque<std::unique_ptr<Block>>;

  SpareMemory() = default;
  static void give_back(void* block);
  std::unique_ptr<Block> take(size_t bytes);
  void keep(std::unique_ptr<Block> block);
  void report();

  std::mutex mutex_;
  const HeldAcrossFork held_across_fork_{mutex_, 1};  // before the registry of pools
  Blocks spare_;                                      // oldest first
  size_t spare_bytes_ = 0;
  std::atomic<size_t> most_bytes_ = 0;
  std::unique_ptr<runtime::PoolRecord> record_;  // since the first spare block
};

}  // namespace npugraph::bridge
