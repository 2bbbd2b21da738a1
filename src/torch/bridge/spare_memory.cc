// SPDX-License-Identifier: Apache-2.0
#include "torch/bridge/spare_memory.h"

#include <cstring>
#include <utility>

#include <c10/core/CPUAllocator.h>

#include "base/pages.h"
#include "runtime/watch/ledger.h"

namespace npugraph::bridge {
namespace {

constexpr int kPoison = 0xff;

// A block serves requests down to 7/8 of its size.
bool serves(size_t block, size_t bytes) { return bytes <= block && block - bytes <= block / 8; }

}  // namespace

// Leaked: results may outlive static destruction.
SpareMemory& SpareMemory::instance() {
  static auto* memory = new SpareMemory;
  return *memory;
}

c10::DataPtr SpareMemory::allocate(size_t bytes) {
  if (bytes < kLeastBytes) return c10::GetCPUAllocator()->allocate(bytes);
  std::unique_ptr<Block> block = take(bytes);
  if (block == nullptr) {
    block = std::make_unique<Block>(Block{c10::GetCPUAllocator()->allocate(bytes), bytes});
    prefer_huge_pages(block->memory.get(), static_cast<int64_t>(bytes));
  }
  void* const data = block->memory.get();
  return {data, block.release(), give_back, c10::Device(c10::DeviceType::CPU)};
}

std::unique_ptr<SpareMemory::Block> SpareMemory::take(size_t bytes) {
  std::lock_guard lock(mutex_);
  auto best = spare_.end();
  for (auto it = spare_.begin(); it != spare_.end(); ++it) {
    if (serves((*it)->bytes, bytes) && (best == spare_.end() || (*it)->bytes < (*best)->bytes)) best = it;
  }
  if (best == spare_.end()) return nullptr;
  std::unique_ptr<Block> block = std::move(*best);
  spare_.erase(best);
  spare_bytes_ -= block->bytes;
  report();
  return block;
}

void SpareMemory::give_back(void* context) {
  std::unique_ptr<Block> block(static_cast<Block*>(context));
  if (runtime::poison()) std::memset(block->memory.get(), kPoison, block->bytes);
  instance().keep(std::move(block));
}

// Frees the oldest blocks beyond the limit, after the lock is released.
void SpareMemory::keep(std::unique_ptr<Block> block) {
  Blocks freed;
  std::lock_guard lock(mutex_);
  spare_bytes_ += block->bytes;
  spare_.push_back(std::move(block));
  while (spare_bytes_ > most_bytes_) {
    spare_bytes_ -= spare_.front()->bytes;
    freed.push_back(std::move(spare_.front()));
    spare_.pop_front();
  }
  report();
}

void SpareMemory::expect(size_t bytes) {
  if (bytes < kLeastBytes) return;
  size_t most = most_bytes_.load(std::memory_order_relaxed);
  while (bytes > most && !most_bytes_.compare_exchange_weak(most, bytes, std::memory_order_relaxed)) {
  }
}

void SpareMemory::trim() {
  Blocks freed;
  std::lock_guard lock(mutex_);
  freed.swap(spare_);
  spare_bytes_ = 0;
  most_bytes_ = 0;
  record_.reset();
}

void SpareMemory::report() {
  if (record_ == nullptr) record_ = std::make_unique<runtime::PoolRecord>("spare results", "npugraph");
  record_->report("keep", static_cast<int64_t>(spare_bytes_));
}

}  // namespace npugraph::bridge
