// SPDX-License-Identifier: Apache-2.0
#include "ge/api/run/user_blocks.h"

#include <memory>
#include <new>

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

}  // namespace npugraph::ge
