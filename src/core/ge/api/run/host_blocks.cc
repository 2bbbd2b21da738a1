// SPDX-License-Identifier: Apache-2.0
#include "ge/api/run/host_blocks.h"

#include <atomic>
#include <cstddef>
#include <cstdlib>
#include <mutex>
#include <new>
#include <utility>

#include "base/error.h"
#include "ge/api/run/user_blocks.h"
#include "program/offsets.h"

namespace npugraph::ge {

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

}  // namespace npugraph::ge
