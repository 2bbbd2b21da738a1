// SPDX-License-Identifier: Apache-2.0
// One block of planned memory: 64-byte aligned, its pages touched, on huge pages when it is large. Fresh memory costs many
// times what reused memory costs, so a block is kept between replays and grows by at least half.
//
// Not thread-safe: a block belongs to one lease. Its size is visible in pools().
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "runtime/memory/pools.h"

namespace npugraph::runtime {

class Arena {
 public:
  // `name` and `owner` are for pools().
  Arena(std::string name, std::string owner);
  ~Arena();
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  // Makes room for at least `bytes`. If the block must grow, it moves and its content is lost.
  void reserve(int64_t bytes);

  std::byte* data() const { return data_; }  // null until something was reserved
  int64_t capacity() const { return capacity_; }
  // Changes whenever the block moves, and differs from that of every other block.
  uint64_t generation() const { return generation_; }
  // Gives the memory back until the next reserve().
  void release();
  // Adds an owner, for pools().
  void add_owner(const std::string& owner) { record_->add_owner(owner); }

 private:
  void free();

  std::byte* data_ = nullptr;
  int64_t capacity_ = 0;
  uint64_t generation_;
  std::unique_ptr<PoolRecord> record_;
};

}  // namespace npugraph::runtime
