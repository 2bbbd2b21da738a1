// SPDX-License-Identifier: Apache-2.0
// Memory that the user manages for the engine.
#pragma once

#include <cstddef>
#include <memory>

namespace ge {

class Allocator;

// A block of an Allocator, which derives from this class where it needs more.
class MemBlock {
 public:
  MemBlock(Allocator& allocator, void* address, size_t size) : allocator_(allocator), address_(address), size_(size) {}
  virtual ~MemBlock() = default;
  MemBlock(const MemBlock&) = delete;
  MemBlock& operator=(const MemBlock&) = delete;

  void* GetAddr() const { return address_; }
  size_t GetSize() const { return size_; }
  // Gives the block back to its allocator; it must not be used again.
  void Free();

 private:
  Allocator& allocator_;
  void* const address_;
  const size_t size_;
};

// Implementations are thread-safe, and call no function of sessions or streams. Malloc() may throw, Free() must not.
class Allocator {
 public:
  virtual ~Allocator() = default;
  // A block of at least `size` bytes; null if there is none. The block belongs to the engine until Free().
  virtual MemBlock* Malloc(size_t size) = 0;
  virtual void Free(MemBlock* block) = 0;
};

using AllocatorPtr = std::shared_ptr<Allocator>;

inline void MemBlock::Free() { allocator_.Free(this); }

}  // namespace ge
