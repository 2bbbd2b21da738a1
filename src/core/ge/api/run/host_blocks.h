// SPDX-License-Identifier: Apache-2.0
// The memory of one graph that is not planned: results of runs, and values whose sizes a run tells.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "ge/api/allocator.h"
#include "runtime/host.h"
#include "runtime/memory/pools.h"

namespace npugraph::ge {

// Objects are counted blocks of the user's allocator or of the process, or stand for memory of the caller. They may
// outlive the host. Thread-safe, but for use().
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

}  // namespace npugraph::ge
