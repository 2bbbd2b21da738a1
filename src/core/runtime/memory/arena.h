// SPDX-License-Identifier: Apache-2.0
// One block of planned memory, 64-byte aligned. Fresh memory costs many times what reused memory costs, so a block is
// kept between replays and grows by at least half.
//
// Not thread-safe: a block belongs to one lease. Its size is visible in pools() if the process took it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "runtime/memory/block_source.h"
#include "runtime/memory/pools.h"

namespace npugraph::runtime {

class Arena {
 public:
  // `name` and `owner` are for pools(). `source` must outlive the Arena.
  Arena(std::string name, std::string owner, BlockSource& source);
  ~Arena();
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  // Makes room for at least `bytes`. If the block must grow, it moves and its content is lost.
  void reserve(int64_t bytes);

  std::byte* data() const { return block_.data(); }  // null until something was reserved
  int64_t capacity() const { return static_cast<int64_t>(block_.size()); }
  // Changes whenever the block moves, and differs from that of every other block.
  uint64_t generation() const { return generation_; }
  // Gives the memory back until the next reserve().
  void release();
  // Adds an owner, for pools().
  void add_owner(const std::string& owner) { record_->add_owner(owner); }

 private:
  void give_back();

  BlockSource& source_;
  std::span<std::byte> block_;
  uint64_t generation_;
  std::unique_ptr<PoolRecord> record_;
};

}  // namespace npugraph::runtime
