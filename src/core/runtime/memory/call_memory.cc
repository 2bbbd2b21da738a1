// SPDX-License-Identifier: Apache-2.0
#include "runtime/memory/call_memory.h"

#include <cstring>
#include <map>
#include <mutex>
#include <span>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/fork.h"
#include "program/offsets.h"
#include "runtime/watch/ledger.h"

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

// Bytes of a constant in the block; none for objects of the host.
int64_t room_of(const program::Constant& constant) {
  constexpr int64_t kUnit = program::kArenaAlignment;
  return constant.data == nullptr ? 0 : (constant.bytes + kUnit - 1) / kUnit * kUnit;
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

KeptResults::~KeptResults() {
  for (const auto& [buffer, object] : objects_) host_.release(object);
}

void* KeptResults::take(int32_t buffer, int64_t bytes, void** data) {
  const auto found = objects_.find(buffer);
  if (found != objects_.end()) {
    const std::span<std::byte> memory = host_.memory_of(found->second);
    if (memory.data() != nullptr && static_cast<int64_t>(memory.size()) >= bytes) {
      poison_memory(memory.data(), memory.size());
      host_.retain(found->second);
      *data = memory.data();
      return found->second;
    }
    host_.release(found->second);
    objects_.erase(found);
  }
  void* object = host_.allocate(bytes, data);
  poison_memory(*data, bytes);
  host_.retain(object);
  objects_.emplace(buffer, object);
  return object;
}

int64_t ConstantMemory::bytes() const {
  int64_t bytes = 0;
  for (const program::Constant& constant : program_.constants) bytes += room_of(constant);
  return bytes;
}

void ConstantMemory::move(std::byte* base) {
  copies_.clear();
  ++generation_;
  if (base == nullptr) return;
  for (const program::Constant& constant : program_.constants) {
    const bool copied = constant.data != nullptr && constant.bytes > 0;
    copies_.push_back(copied ? std::memcpy(base, constant.data, constant.bytes) : constant.data);
    base += room_of(constant);
  }
}

const void* ConstantMemory::data(int32_t constant) const {
  return copies_.empty() ? program_.constants[constant].data : copies_[constant];
}

}  // namespace npugraph::runtime
