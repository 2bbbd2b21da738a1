// SPDX-License-Identifier: Apache-2.0
// Loops and branches in LLVM IR, and pointers to the rows that a loop walks along.
#pragma once

#include <functional>
#include <vector>

#include <llvm/IR/IRBuilder.h>

namespace npugraph::codegen {

using Values = std::vector<llvm::Value*>;

// for (i = begin; i < end; i += step) carried = body(i, carried), over i64. Returns the values carried out of the loop
// and leaves the builder behind it.
Values emit_loop(llvm::IRBuilderBase& b, llvm::Value* begin, llvm::Value* end, int64_t step, const Values& carried,
                 const std::function<Values(llvm::Value* i, const Values& carried)>& body);

// The same without carried values.
void emit_loop(llvm::IRBuilderBase& b, llvm::Value* begin, llvm::Value* end, int64_t step,
               const std::function<void(llvm::Value* i)>& body);

// condition ? then() : otherwise(), which return the same number of values.
Values emit_if(llvm::IRBuilderBase& b, llvm::Value* condition, const std::function<Values()>& then,
               const std::function<Values()>& otherwise);

// Prefetches the cache line at `at`, which is read soon, into the L2 cache.
void emit_prefetch(llvm::IRBuilderBase& b, llvm::Value* at);

// Pointers to several rows of a matrix that a loop walks along at the same time: one for each three rows, which are at
// the pointer, one stride and two strides behind it. Addressing modes cover these without further arithmetic, so that a
// dozen rows need few registers.
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
