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

  // Smaller blocks come from torch's allocator and go back to it, as malloc keeps those. malloc returns the pages of
  // larger blocks to the system: of single blocks, or of the free end of its memory.
  static constexpr size_t kLeastBytes = 32 << 10;

  // 64-byte aligned memory of at least `bytes`, with undefined content.
  c10::DataPtr allocate(size_t bytes);
  // Notes that one call allocated `bytes` in all. The largest number noted limits how many spare bytes are kept.
  void expect(size_t bytes);
  // Frees the spare blocks and resets that limit, for all Executables; the next calls set it again.
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
  const HeldAcrossFork held_across_fork_{mutex_, 1};  // locked before the registry of pools
  Blocks spare_;                                      // oldest first
  size_t spare_bytes_ = 0;
  std::atomic<size_t> most_bytes_ = 0;
  std::unique_ptr<runtime::PoolRecord> record_;  // since the first spare block
};

}  // namespace npugraph::bridge
