// SPDX-License-Identifier: Apache-2.0
#include "codegen/emit/loops.h"

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

}  // namespace npugraph::codegen
