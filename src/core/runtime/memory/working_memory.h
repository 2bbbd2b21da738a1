// SPDX-License-Identifier: Apache-2.0
// The memory in which the tasks of one call at a time work, and the pools in which graphs share it.
//
// A pool has a handle that the user chose (option use_graph_pool). Calls take a block out of it and give it back, so
// graphs that run one after the other need the memory of the largest of them; calls at the same time have a block each.
#pragma once

#include <memory>
#include <string>

#include "runtime/instance/capture_rules.h"
#include "runtime/memory/arena.h"

namespace npugraph::runtime {

// Not thread-safe: belongs to one call at a time.
struct WorkingMemory {
  // `name` and `owner` are for pools(). `source` must outlive it.
  WorkingMemory(const std::string& name, const std::string& owner, BlockSource& source);
  void release();  // frees all of it until the next call

  Arena arena;
  Arena scratch;
};

// A graph's share in the pool of a handle; the pool lives as long as there are shares. Thread-safe.
class SharedPool {
 public:
  SharedPool(PoolHandle handle, std::string owner);
  ~SharedPool();
  SharedPool(const SharedPool&) = delete;
  SharedPool& operator=(const SharedPool&) = delete;

  std::unique_ptr<WorkingMemory> take();
  void give_back(std::unique_ptr<WorkingMemory> block);
  // Frees the blocks that no call uses, unless other graphs have a share.
  void trim();

 private:
  const PoolHandle handle_;
  const std::string owner_;
};

}  // namespace npugraph::runtime
