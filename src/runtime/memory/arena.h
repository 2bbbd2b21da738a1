// SPDX-License-Identifier: Apache-2.0
// One block of planned memory: 64-byte aligned, its pages touched, on huge pages when it is large. Fresh memory costs many
// times what reused memory costs, so a block is kept between replays and grows by at least half.
//
// Not thread-safe: a block belongs to one lease. What it holds is visible in pools().
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

  // At least `bytes`. When the block must grow its content is lost and it moves.
  void reserve(int64_t bytes);

  std::byte* data() const { return data_; }  // null until something was reserved
  int64_t capacity() const { return capacity_; }
  // Another number whenever the block moves, and another one than that of any other block.
  uint64_t generation() const { return generation_; }
  // Gives the memory back until the next reserve().
  void release();
  // One more who uses it, for pools().
  void add_owner(const std::string& owner) { record_->add_owner(owner); }

 private:
  void free();

  std::byte* data_ = nullptr;
  int64_t capacity_ = 0;
  uint64_t generation_;
  std::unique_ptr<PoolRecord> record_;
};

}  // namespace npugraph::runtime
