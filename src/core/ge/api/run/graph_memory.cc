// SPDX-License-Identifier: Apache-2.0
#include "ge/api/run/graph_memory.h"

#include <utility>

namespace npugraph::ge {

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
