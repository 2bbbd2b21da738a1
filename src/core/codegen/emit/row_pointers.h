// SPDX-License-Identifier: Apache-2.0
// Pointers to several rows of a matrix that a loop walks along at the same time.
#pragma once

#include "codegen/emit/loops.h"

namespace npugraph::codegen {

// Prefetches the cache line at `at`, which is read soon, into the L2 cache.
void emit_prefetch(llvm::IRBuilderBase& b, llvm::Value* at);

// One pointer for each three rows, which are at the pointer, one stride and two strides behind it. Addressing modes
// cover these without further arithmetic, so that a dozen rows need few registers.
class RowPointers {
 public:
  // Rows that lie `stride` bytes apart, from `first` on.
  RowPointers(llvm::IRBuilderBase& b, llvm::Value* first, llvm::Value* stride, int rows);

  // One for each three rows, to be carried through a loop.
  const Values& pointers() const { return pointers_; }
  // The same rows, `bytes` (an i64) further.
  RowPointers advanced(llvm::Value* bytes) const;
  RowPointers at(const Values& pointers) const;
  // The address in row r, `offset` bytes further.
  llvm::Value* row(int r, int64_t offset = 0) const;

 private:
  llvm::IRBuilderBase& b_;
  llvm::Value* stride_;
  llvm::Value* two_strides_;
  Values pointers_;
};

}  // namespace npugraph::codegen
