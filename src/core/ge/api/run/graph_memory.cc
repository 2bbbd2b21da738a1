// SPDX-License-Identifier: Apache-2.0
#include "ge/api/run/graph_memory.h"

#include <atomic>
#include <cstddef>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <new>
#include <utility>

#include "base/error.h"
#include "program/offsets.h"

namespace npugraph::ge {

UserBlock::UserBlock(::ge::AllocatorPtr allocator, int64_t bytes) : allocator_(std::move(allocator)) {
  constexpr int64_t kUnit = program::kArenaAlignment;
  // An allocator need not align its blocks.
  const auto wanted = static_cast<size_t>(bytes + kUnit - 1);
  block_ = allocator_->Malloc(wanted);
  if (block_ == nullptr) throw std::bad_alloc();
  void* begin = block_->GetAddr();
  size_t room = block_->GetSize();
  data_ = static_cast<std::byte*>(std::align(kUnit, static_cast<size_t>(bytes), begin, room));
  if (data_ == nullptr) {
    const size_t got = block_->GetSize();
    block_->Free();
    block_ = nullptr;
    throw UserError(cat("the external allocator gave a block of ", got, " bytes for ", wanted));
  }
}

UserBlock::~UserBlock() {
  if (block_ != nullptr) block_->Free();
}

struct BlockHost::Ledger {
  explicit Ledger(const std::string& name) : record("results " + name, name) {}
  void add(int64_t more) {
    std::lock_guard lock(mutex);
    bytes += more;
    record.report(more > 0 ? "grow" : "drop", bytes);
  }

  std::mutex mutex;
  int64_t bytes = 0;
  runtime::PoolRecord record;
};

struct BlockHost::Block {
  std::atomic<int64_t> references{1};
  UserBlock of_user;                // of an allocator
  std::byte* of_process = nullptr;  // both are empty for memory of the caller
  int64_t bytes = 0;
  std::shared_ptr<Ledger> ledger;
};

BlockHost::BlockHost(const std::string& name) : ledger_(std::make_shared<Ledger>(name)) {}

void* BlockHost::allocate(int64_t bytes, void** data) {
  NG_CHECK(bytes >= 0, "an object of ", bytes, " bytes");
  constexpr int64_t kUnit = program::kArenaAlignment;
  auto block = std::make_unique<Block>();
  if (allocator_ != nullptr) {
    block->of_user = UserBlock(allocator_, bytes);
    *data = block->of_user.data();
    return block.release();
  }
  block->bytes = (bytes + kUnit - 1) / kUnit * kUnit;
  block->of_process = static_cast<std::byte*>(std::aligned_alloc(kUnit, block->bytes));
  if (block->of_process == nullptr) throw std::bad_alloc();
  ledger_->add(block->bytes);
  block->ledger = ledger_;
  *data = block->of_process;
  return block.release();
}

void BlockHost::retain(void* object) {
  static_cast<Block*>(object)->references.fetch_add(1, std::memory_order_relaxed);
}

void* BlockHost::object_of_caller() { return new Block; }

void BlockHost::release_block(void* object) {
  auto* block = static_cast<Block*>(object);
  if (block->references.fetch_sub(1, std::memory_order_acq_rel) > 1) return;
  if (block->of_process != nullptr) {
    std::free(block->of_process);
    block->ledger->add(-block->bytes);
  }
  delete block;
}

void* BlockHost::constant_object(const program::Constant& constant) {
  NG_CHECK(false, "constant ", constant.name, " of a model is an object of a host");
}

std::span<std::byte> GraphMemory::take(int64_t least, int64_t wanted) {
  if (is_given()) return given_;
  if (allocator_ == nullptr) return runtime::process_memory().take(least, wanted);
  UserBlock block(allocator_, least);
  std::byte* data = block.data();
  std::lock_guard lock(mutex_);
  of_allocator_.emplace(data, std::move(block));
  return {data, static_cast<size_t>(least)};
}

void GraphMemory::give_back(std::span<std::byte> block) {
  if (is_given()) return;
  if (allocator_ == nullptr) return runtime::process_memory().give_back(block);
  UserBlock given_back;  // freed without the lock
  std::lock_guard lock(mutex_);
  const auto found = of_allocator_.find(block.data());
  given_back = std::move(found->second);
  of_allocator_.erase(found);
}

}  // namespace npugraph::ge
