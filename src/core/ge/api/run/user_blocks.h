// SPDX-License-Identifier: Apache-2.0
// A block of the user's allocator, with 64-byte aligned memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>

#include "ge/api/allocator.h"

namespace npugraph::ge {

// Not thread-safe.
class UserBlock {
 public:
  UserBlock() = default;
  // std::bad_alloc if the allocator has no such block. It is kept alive.
  UserBlock(::ge::AllocatorPtr allocator, int64_t bytes);
  ~UserBlock();
  UserBlock(UserBlock&& other) noexcept { swap(other); }
  UserBlock& operator=(UserBlock&& other) noexcept {
    UserBlock(std::move(other)).swap(*this);
    return *this;
  }

  std::byte* data() const { return data_; }

 private:
  void swap(UserBlock& other) noexcept {
    std::swap(allocator_, other.allocator_);
    std::swap(block_, other.block_);
    std::swap(data_, other.data_);
  }

  ::ge::AllocatorPtr allocator_;
  ::ge::MemBlock* block_ = nullptr;
  std::byte* data_ = nullptr;
};

}  // namespace npugraph::ge
