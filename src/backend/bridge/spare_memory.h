// SPDX-License-Identifier: Apache-2.0
// Memory of results, kept for later calls when results give it back: fresh pages cost more than most kernels that fill
// them. Torch's CPU allocator makes the slabs. Thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>

#include <c10/core/Allocator.h>

#include "base/fork.h"
#include "runtime/memory/block_heap.h"
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
  // Notes that a call of `graph` allocated `bytes` in all. As many spare bytes are kept as the latest calls of all
  // graphs took together.
  void expect(const void* graph, size_t bytes);
  // Frees the spare memory and forgets all graphs; their next calls note them again.
  void trim();

 private:
  struct Block;
  using Slabs = std::vector<c10::DataPtr>;

  SpareMemory() = default;
  static void give_back(void* block);
  std::byte* take(int64_t bytes);
  Slabs remove(const std::vector<runtime::BlockHeap::Slab>& slabs);
  void report();

  std::mutex mutex_;
  const HeldAcrossFork held_across_fork_{mutex_, 1};  // locked before the registry of pools
  runtime::BlockHeap heap_;
  std::map<std::byte*, c10::DataPtr> slabs_;                // of heap_, by address
  std::unordered_map<const void*, size_t> bytes_of_graph_;  // in its latest call
  size_t limit_ = 0;                                        // their sum
  std::unique_ptr<runtime::PoolRecord> record_;             // since the first slab
};

}  // namespace npugraph::bridge
