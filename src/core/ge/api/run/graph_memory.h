// SPDX-License-Identifier: Apache-2.0
// The memory of one graph: in memory that the user gave, in blocks of the user's allocator, or in memory of the
// process.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <utility>

#include "ge/api/allocator.h"
#include "runtime/host.h"
#include "runtime/memory/block_source.h"
#include "runtime/memory/pools.h"

namespace npugraph::ge {

// A block of the user's allocator, with 64-byte aligned memory. Not thread-safe.
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

// The memory that is not planned: results of runs, and values whose sizes a run tells. Objects are counted blocks of
// the user's allocator or of the process, or stand for memory of the caller. They may outlive the host. Thread-safe,
// but for use().
class BlockHost final : public runtime::Host {
 public:
  // `name` is for pools(), which shows the bytes that the process took.
  explicit BlockHost(const std::string& name);

  // Where the memory of later objects comes from; null: the process. No call may be in progress.
  void use(::ge::AllocatorPtr allocator) { allocator_ = std::move(allocator); }

  // std::bad_alloc if the allocator has no memory.
  void* allocate(int64_t bytes, void** data) override;
  void retain(void* object) override;
  void release(void* object) override { release_block(object); }
  void* constant_object(const program::Constant& constant) override;

  // An object for memory of the caller, with one reference.
  static void* object_of_caller();
  // Gives one reference back, also when the host is gone.
  static void release_block(void* object);

 private:
  struct Ledger;
  struct Block;

  ::ge::AllocatorPtr allocator_;
  const std::shared_ptr<Ledger> ledger_;
};

// Where the intermediate results lie. use() is called while no block is taken.
class GraphMemory final : public runtime::BlockSource {
 public:
  // One block of the user for one run at a time. Empty: the other sources.
  void use(std::span<std::byte> given) { given_ = given; }
  // Null: the process.
  void use(::ge::AllocatorPtr allocator) { allocator_ = std::move(allocator); }
  bool is_given() const { return !given_.empty(); }

  std::span<std::byte> take(int64_t least, int64_t wanted) override;
  void give_back(std::span<std::byte> block) override;
  bool is_counted() const override { return !is_given() && allocator_ == nullptr; }

 private:
  std::span<std::byte> given_;
  ::ge::AllocatorPtr allocator_;
  std::mutex mutex_;  // guards what follows
  std::map<std::byte*, UserBlock> of_allocator_;
};

}  // namespace npugraph::ge
