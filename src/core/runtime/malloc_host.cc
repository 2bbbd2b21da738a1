// SPDX-License-Identifier: Apache-2.0
#include "runtime/malloc_host.h"

#include <atomic>
#include <cstdlib>
#include <new>

#include "base/error.h"
#include "program/offsets.h"

namespace npugraph::runtime {
namespace {

constexpr int64_t kAlignment = program::kArenaAlignment;

// A header in front of the memory whose references it counts.
struct alignas(kAlignment) Block {
  std::atomic<int64_t> references{1};
};

}  // namespace

void* MallocHost::allocate(int64_t bytes, void** data) {
  NG_CHECK(bytes >= 0, "an object of ", bytes, " bytes");
  const int64_t rounded = (bytes + kAlignment - 1) / kAlignment * kAlignment;
  void* memory = std::aligned_alloc(kAlignment, sizeof(Block) + rounded);
  if (memory == nullptr) throw std::bad_alloc();
  auto* block = new (memory) Block;
  *data = block + 1;
  return block;
}

void MallocHost::retain(void* object) {
  static_cast<Block*>(object)->references.fetch_add(1, std::memory_order_relaxed);
}

void MallocHost::release(void* object) {
  auto* block = static_cast<Block*>(object);
  if (block->references.fetch_sub(1, std::memory_order_acq_rel) > 1) return;
  block->~Block();
  std::free(block);
}

void* MallocHost::constant_object(const program::Constant& constant) {
  throw UserError(cat("constant \"", constant.name, "\" is an object of torch, and this process has none"));
}

}  // namespace npugraph::runtime
