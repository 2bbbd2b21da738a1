// SPDX-License-Identifier: Apache-2.0
// Where tasks read the constants of a Program: in the bytes that the Program carries, or in copies in one block of
// memory of the user.
//
// Not thread-safe: moves only while nothing reads it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "program/program.h"

namespace npugraph::runtime {

class ConstantMemory {
 public:
  // `program` must outlive the object.
  explicit ConstantMemory(const program::Program& program) : program_(program) {}

  // Bytes of a block with all constants but opaque ones, each at a multiple of 64.
  int64_t bytes() const;
  // Copies the constants into the block at `base`, which is 64-byte aligned and has bytes(). Null: back to the bytes of
  // the Program.
  void move(std::byte* base);
  const void* data(int32_t constant) const;
  uint64_t generation() const { return generation_; }  // rises with each move

 private:
  const program::Program& program_;
  std::vector<const void*> copies_;  // per constant; empty: there are no copies
  uint64_t generation_ = 1;
};

}  // namespace npugraph::runtime
