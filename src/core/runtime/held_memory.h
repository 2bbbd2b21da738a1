// SPDX-License-Identifier: Apache-2.0
// The memory that an Executable holds between calls: constants, working memory, Instances.
#pragma once

#include <cstddef>
#include <cstdint>

#include "runtime/executable.h"

namespace npugraph::runtime {

// Manages the memory of an Executable, which must outlive it. Thread-safe.
class HeldMemory {
 public:
  explicit HeldMemory(Executable& executable) : state_(executable.state()) {}

  // Bytes that copies of all constants need.
  int64_t constant_bytes() const;
  // Copies the constants to `base`, 64-byte aligned memory of constant_bytes() that must stay as it is until the next
  // move; tasks read them there. Null: they read the bytes of the Program. No call may be in progress.
  void move_constants(std::byte* base);
  // Gives all working memory back to Options::memory; Instances stay, and calls take it again. No call may be in
  // progress.
  void release();
  // Drops all Instances and arenas that are not in use.
  void trim();

 private:
  Executable::State& state_;
};

}  // namespace npugraph::runtime
