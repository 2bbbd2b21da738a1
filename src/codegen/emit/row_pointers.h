// SPDX-License-Identifier: Apache-2.0
// Rows of a matrix that a loop walks along at once.
#pragma once

#include "codegen/emit/loops.h"

namespace npugraph::codegen {

// Fetches the line at `at` into the second cache, soon to be read.
void emit_prefetch(llvm::IRBuilderBase& b, llvm::Value* at);

// One pointer for three rows, which are at the pointer, a stride and two strides behind it: what an address can say without
// arithmetic, so that a dozen rows need few registers.
class RowPointers {
 public:
  // Rows that lie `stride` bytes apart, from `first` on.
  RowPointers(llvm::IRBuilderBase& b, llvm::Value* first, llvm::Value* stride, int rows);

  // One for three rows, to be carried through a loop.
  const Values& pointers() const { return pointers_; }
  // The same rows, so many bytes (an i64) further.
  RowPointers moved(llvm::Value* bytes) const;
  RowPointers at(const Values& pointers) const;
  // The place in row r, `offset` bytes further.
  llvm::Value* row(int r, int64_t offset = 0) const;

 private:
  llvm::IRBuilderBase& b_;
  llvm::Value* stride_;
  llvm::Value* two_strides_;
  Values pointers_;
};

}  // namespace npugraph::codegen
