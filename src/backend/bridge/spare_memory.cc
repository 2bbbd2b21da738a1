// SPDX-License-Identifier: Apache-2.0
#include "backend/bridge/spare_memory.h"

#include <exception>
#include <utility>

#include <c10/core/CPUAllocator.h>

#include "base/host_memory.h"
#include "runtime/watch/ledger.h"

namespace npugraph::bridge {
namespace {

c10::DataPtr new_slab(int64_t wanted, int64_t least, int64_t& bytes) {
  if (wanted > least) {
    try {
      bytes = wanted;
      return c10::GetCPUAllocator()->allocate(static_cast<size_t>(wanted));
    } catch (const std::exception&) {  // less memory may be left
    }
  }
  bytes = least;
  return c10::GetCPUAllocator()->allocate(static_cast<size_t>(least));
}

}  // namespace

struct SpareMemory::Block {
  std::byte* data;
  int64_t bytes;
};

// Leaked: results may outlive static destruction.
SpareMemory& SpareMemory::instance() {
  static auto* memory = new SpareMemory;
  return *memory;
}

c10::DataPtr SpareMemory::allocate(size_t bytes) {
  if (bytes < kLeastBytes) return c10::GetCPUAllocator()->allocate(bytes);
  auto block = std::make_unique<Block>(Block{.data = nullptr, .bytes = static_cast<int64_t>(bytes)});
  {
    const std::lock_guard lock(mutex_);
    block->data = take(block->bytes);
    report();
  }
  void* const data = block->data;
  return {data, block.release(), give_back, c10::Device(c10::DeviceType::CPU)};
}

std::byte* SpareMemory::take(int64_t bytes) {
  if (std::byte* const block = heap_.take(bytes)) return block;
  const int64_t least = runtime::BlockHeap::rounded(bytes);
  int64_t size = 0;
  c10::DataPtr slab = new_slab(heap_.wanted_slab(bytes), least, size);
  auto* const first = static_cast<std::byte*>(slab.get());
  prefer_huge_pages(first, size);
  heap_.add({first, static_cast<size_t>(size)});
  slabs_.emplace(first, std::move(slab));
  return heap_.take(bytes);
}

void SpareMemory::give_back(void* context) {
  const std::unique_ptr<Block> block(static_cast<Block*>(context));
  runtime::poison_memory(block->data, static_cast<size_t>(block->bytes));
  SpareMemory& memory = instance();
  Slabs freed, replaced;  // after the lock is released
  const std::lock_guard lock(memory.mutex_);
  memory.heap_.give_back(block->data, block->bytes);
  freed = memory.remove(memory.heap_.shed(static_cast<int64_t>(memory.limit_)));
  replaced = memory.remove(memory.heap_.consolidate());
  memory.report();
}

// The memory of slabs that the heap has given up.
SpareMemory::Slabs SpareMemory::remove(const std::vector<runtime::BlockHeap::Slab>& slabs) {
  Slabs freed;
  for (const runtime::BlockHeap::Slab slab : slabs) {
    freed.push_back(std::move(slabs_.at(slab.data())));
    slabs_.erase(slab.data());
  }
  return freed;
}

void SpareMemory::expect(const void* graph, size_t bytes) {
  if (bytes < kLeastBytes) return;
  const std::lock_guard lock(mutex_);
  size_t& known = bytes_of_graph_[graph];
  limit_ += bytes - known;
  known = bytes;
}

void SpareMemory::trim() {
  Slabs freed;
  const std::lock_guard lock(mutex_);
  bytes_of_graph_.clear();
  limit_ = 0;
  freed = remove(heap_.shed(0));
  if (heap_.spare_bytes() == 0) return record_.reset();
  report();
}

void SpareMemory::report() {
  if (record_ == nullptr) record_ = std::make_unique<runtime::PoolRecord>("spare results", "npugraph");
  record_->report("keep", heap_.spare_bytes());
}

}  // namespace npugraph::bridge
