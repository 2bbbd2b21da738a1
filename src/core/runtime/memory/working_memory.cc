// SPDX-License-Identifier: Apache-2.0
#include "runtime/memory/working_memory.h"

#include <map>
#include <mutex>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/fork.h"

namespace npugraph::runtime {
namespace {

constexpr int kPoolsRank = 1;  // after that of an Executable, before the registry behind pools()

struct Pool {
  int64_t shares = 0;
  int64_t made = 0;
  std::vector<std::unique_ptr<WorkingMemory>> free;  // the one given back last is at the end
};

struct AllPools {
  std::mutex mutex;
  std::map<PoolHandle, Pool> by_handle;
  const HeldAcrossFork held_across_fork{mutex, kPoolsRank};
};

// Leaked on purpose: graphs may outlive static destruction.
AllPools& all_pools() {
  static auto* pools = new AllPools;
  return *pools;
}

}  // namespace

WorkingMemory::WorkingMemory(const std::string& name, const std::string& owner, BlockSource& source)
    : arena("arena " + name, owner, source), scratch("scratch " + name, owner, source) {}

void WorkingMemory::release() {
  arena.release();
  scratch.release();
}

SharedPool::SharedPool(PoolHandle handle, std::string owner) : handle_(handle), owner_(std::move(owner)) {
  std::lock_guard lock(all_pools().mutex);
  ++all_pools().by_handle[handle_].shares;
}

SharedPool::~SharedPool() {
  std::lock_guard lock(all_pools().mutex);
  const auto pool = all_pools().by_handle.find(handle_);
  if (--pool->second.shares == 0) all_pools().by_handle.erase(pool);
}

std::unique_ptr<WorkingMemory> SharedPool::take() {
  std::lock_guard lock(all_pools().mutex);
  Pool& pool = all_pools().by_handle.at(handle_);
  std::unique_ptr<WorkingMemory> block;
  if (pool.free.empty()) {
    const std::string name = cat("pool (", handle_.first, ", ", handle_.second, ")#", pool.made++);
    block = std::make_unique<WorkingMemory>(name, owner_, process_memory());
  } else {
    block = std::move(pool.free.back());
    pool.free.pop_back();
  }
  block->arena.add_owner(owner_);
  block->scratch.add_owner(owner_);
  return block;
}

void SharedPool::give_back(std::unique_ptr<WorkingMemory> block) {
  std::lock_guard lock(all_pools().mutex);
  all_pools().by_handle.at(handle_).free.push_back(std::move(block));
}

void SharedPool::trim() {
  std::lock_guard lock(all_pools().mutex);
  Pool& pool = all_pools().by_handle.at(handle_);
  if (pool.shares == 1) pool.free.clear();
}

}  // namespace npugraph::runtime
