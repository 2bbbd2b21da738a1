// SPDX-License-Identifier: Apache-2.0
// Where the blocks of arenas come from: the process, or whoever uses the runtime.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace npugraph::runtime {

// Implementations are thread-safe.
class BlockSource {
 public:
  virtual ~BlockSource() = default;

  // A block of at least `least` bytes that is 64-byte aligned; more than `wanted` bytes are of no use. Empty if there
  // is none.
  virtual std::span<std::byte> take(int64_t least, int64_t wanted) = 0;
  // Takes a block of take() back.
  virtual void give_back(std::span<std::byte> block) = 0;
  // Whether pools() counts the blocks: they are memory that this process took for them.
  virtual bool is_counted() const = 0;
};

// Memory of the process: its pages touched, on huge pages where blocks are large.
BlockSource& process_memory();

}  // namespace npugraph::runtime
