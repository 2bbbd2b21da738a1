// SPDX-License-Identifier: Apache-2.0
#include "codegen/emit/row_pointers.h"

#include <llvm/IR/InlineAsm.h>

namespace npugraph::codegen {
namespace {

using llvm::Value;

constexpr int kRowsPerPointer = 3;

// A copy whose origin LLVM does not see: strength reduction would fold the pointers into one again.
Value* opaque(llvm::IRBuilderBase& b, Value* pointer) {
  auto* type = llvm::FunctionType::get(pointer->getType(), {pointer->getType()}, false);
  return b.CreateCall(type, llvm::InlineAsm::get(type, "", "=r,0", false), {pointer});
}

}  // namespace

void emit_prefetch(llvm::IRBuilderBase& b, llvm::Value* at) {
  b.CreateIntrinsic(llvm::Intrinsic::prefetch, {at->getType()}, {at, b.getInt32(0), b.getInt32(2), b.getInt32(1)});
}

RowPointers::RowPointers(llvm::IRBuilderBase& b, Value* first, Value* stride, int rows)
    : b_(b), stride_(stride), two_strides_(b.CreateShl(stride, 1)) {
  Value* three_strides = b.CreateAdd(stride_, two_strides_);
  for (int r = 0; r < rows; r += kRowsPerPointer) {
    pointers_.push_back(opaque(b, first));
    first = b.CreateGEP(b.getInt8Ty(), first, three_strides);
  }
}

RowPointers RowPointers::advanced(Value* bytes) const {
  Values moved;
  for (Value* pointer : pointers_) moved.push_back(b_.CreateGEP(b_.getInt8Ty(), pointer, bytes));
  return at(moved);
}

RowPointers RowPointers::at(const Values& pointers) const {
  RowPointers there = *this;
  there.pointers_ = pointers;
  return there;
}

Value* RowPointers::row(int r, int64_t offset) const {
  Value* pointer = pointers_[r / kRowsPerPointer];
  if (r % kRowsPerPointer == 1) pointer = b_.CreateGEP(b_.getInt8Ty(), pointer, stride_);
  if (r % kRowsPerPointer == 2) pointer = b_.CreateGEP(b_.getInt8Ty(), pointer, two_strides_);
  return b_.CreateConstGEP1_64(b_.getInt8Ty(), pointer, offset);
}

}  // namespace npugraph::codegen
