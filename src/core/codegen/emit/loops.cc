// SPDX-License-Identifier: Apache-2.0
#include "codegen/emit/loops.h"

#include <llvm/IR/InlineAsm.h>

namespace npugraph::codegen {

using llvm::BasicBlock;
using llvm::PHINode;
using llvm::Value;

Values emit_loop(llvm::IRBuilderBase& b, Value* begin, Value* end, int64_t step, const Values& carried,
                 const std::function<Values(Value* i, const Values& carried)>& body) {
  llvm::Function* function = b.GetInsertBlock()->getParent();
  BasicBlock* before = b.GetInsertBlock();
  BasicBlock* inside = BasicBlock::Create(b.getContext(), "loop", function);
  BasicBlock* after = BasicBlock::Create(b.getContext(), "after", function);
  b.CreateCondBr(b.CreateICmpSLT(begin, end), inside, after);

  b.SetInsertPoint(inside);
  PHINode* i = b.CreatePHI(b.getInt64Ty(), 2);
  i->addIncoming(begin, before);
  std::vector<PHINode*> phis;
  for (Value* value : carried) {
    phis.push_back(b.CreatePHI(value->getType(), 2));
    phis.back()->addIncoming(value, before);
  }
  const Values next = body(i, {phis.begin(), phis.end()});
  Value* next_i = b.CreateAdd(i, b.getInt64(step), "", true, true);
  BasicBlock* end_of_body = b.GetInsertBlock();
  i->addIncoming(next_i, end_of_body);
  for (size_t p = 0; p < phis.size(); ++p) phis[p]->addIncoming(next[p], end_of_body);
  b.CreateCondBr(b.CreateICmpSLT(next_i, end), inside, after);

  b.SetInsertPoint(after);
  Values results;
  for (size_t p = 0; p < carried.size(); ++p) {
    PHINode* result = b.CreatePHI(carried[p]->getType(), 2);
    result->addIncoming(carried[p], before);
    result->addIncoming(next[p], end_of_body);
    results.push_back(result);
  }
  return results;
}

void emit_loop(llvm::IRBuilderBase& b, Value* begin, Value* end, int64_t step,
               const std::function<void(Value* i)>& body) {
  emit_loop(b, begin, end, step, {}, [&](Value* i, const Values&) {
    body(i);
    return Values{};
  });
}

Values emit_if(llvm::IRBuilderBase& b, Value* condition, const std::function<Values()>& then,
               const std::function<Values()>& otherwise) {
  llvm::Function* function = b.GetInsertBlock()->getParent();
  BasicBlock* yes = BasicBlock::Create(b.getContext(), "then", function);
  BasicBlock* no = BasicBlock::Create(b.getContext(), "else", function);
  BasicBlock* after = BasicBlock::Create(b.getContext(), "after", function);
  b.CreateCondBr(condition, yes, no);
  b.SetInsertPoint(yes);
  const Values a = then();
  BasicBlock* end_of_yes = b.GetInsertBlock();
  b.CreateBr(after);
  b.SetInsertPoint(no);
  const Values c = otherwise();
  BasicBlock* end_of_no = b.GetInsertBlock();
  b.CreateBr(after);
  b.SetInsertPoint(after);
  Values results;
  for (size_t i = 0; i < a.size(); ++i) {
    PHINode* phi = b.CreatePHI(a[i]->getType(), 2);
    phi->addIncoming(a[i], end_of_yes);
    phi->addIncoming(c[i], end_of_no);
    results.push_back(phi);
  }
  return results;
}

namespace {

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
