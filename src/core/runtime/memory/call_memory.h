// SPDX-License-Identifier: Apache-2.0
// The memory of calls: in which tasks work, the pools in which graphs share it, results that stay, and where constants
// are read.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "program/program.h"
#include "runtime/host.h"
#include "runtime/memory/arena.h"
#include "runtime/options.h"

namespace npugraph::runtime {

// Not thread-safe: belongs to one call at a time.
struct WorkingMemory {
  // `name` and `owner` are for pools(). `source` must outlive it.
  WorkingMemory(const std::string& name, const std::string& owner, BlockSource& source);
  void release();  // frees all of it until the next call

  Arena arena;
  Arena scratch;
};

// A graph's share in the pool of a handle that the user chose (option use_graph_pool); the pool lives as long as there
// are shares. Calls take a block out of it and give it back, so graphs that run one after the other need the memory of
// the largest of them; calls at the same time have a block each. Thread-safe.
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

// Results that belong to the graph: they stay where they are, and the next run overwrites them (option
// clone_output=False). Not thread-safe: belongs to one call at a time.
class KeptResults {
 public:
  explicit KeptResults(Host& host) : host_(host) {}
  ~KeptResults();
  KeptResults(const KeptResults&) = delete;
  KeptResults& operator=(const KeptResults&) = delete;

  // The object of a buffer, with one more reference, which the caller owns. It is the object of the previous call
  // unless that is too small or has lost its memory.
  void* take(int32_t buffer, int64_t bytes, void** data);

 private:
  Host& host_;
  std::unordered_map<int32_t, void*> objects_;  // by buffer, each with a reference
};

// Where tasks read the constants of a Program: in the bytes that the Program carries, or in copies in one block of
// memory of the user. Not thread-safe: moves only while nothing reads it.
class ConstantMemory {
 public:
  // `program` must outlive the object.
  explicit ConstantMemory(const program::Program& program) : program_(program) {}

  // Bytes of a block with all constants but opaque ones, each at a multiple of 64.
  int64_t bytes() const;
  // Copies the constants into the block at `base`, which is 64-byte aligned and has bytes(). Null: back to the bytes of
  // the Program.
  void move(std::byte* base);
  const void* data(int32_t constant) const;
  uint64_t generation() const { return generation_; }  // rises with each move

 private:
  const program::Program& program_;
  std::vector<const void*> copies_;  // per constant; empty: there are no copies
  uint64_t generation_ = 1;
};

}  // namespace npugraph::runtime
