// SPDX-License-Identifier: Apache-2.0
// Where the intermediate results of one graph lie: in memory that the user gave, in blocks of the user's allocator, or
// in memory of the process.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <span>

#include "ge/api/allocator.h"
#include "ge/api/run/user_blocks.h"
#include "runtime/memory/block_source.h"

namespace npugraph::ge {

// use() is called while no block is taken.
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
