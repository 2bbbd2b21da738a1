// SPDX-License-Identifier: Apache-2.0
// Calls of libm, lane by lane.
#include <functional>
#include <string>

#include <llvm/IR/MDBuilder.h>
#include <llvm/IR/Module.h>

#include "codegen/math/functions.h"

namespace npugraph::codegen {
namespace {

using llvm::BasicBlock;
using llvm::Value;

llvm::FunctionCallee libm_function(llvm::IRBuilderBase& b, std::string_view name, llvm::Type* element, size_t arity) {
  const std::string full = std::string(name) + (element->isDoubleTy() ? "" : "f");
  const std::vector<llvm::Type*> params(arity, element);
  llvm::FunctionCallee callee =
      b.GetInsertBlock()->getModule()->getOrInsertFunction(full, llvm::FunctionType::get(element, params, false));
  llvm::cast<llvm::Function>(callee.getCallee())->setDoesNotThrow();
  return callee;
}

// An array of lanes on the stack, reserved once per call of the function.
Value* lane_array(llvm::IRBuilderBase& b, llvm::Type* vector) {
  BasicBlock& entry = b.GetInsertBlock()->getParent()->getEntryBlock();
  llvm::IRBuilder<> at_entry(&entry, entry.begin());
  return at_entry.CreateAlloca(vector);
}

// body(lane) for each bit that is set. At least one must be.
void emit_lane_loop(llvm::IRBuilderBase& b, Value* bits, const std::function<void(Value* lane)>& body) {
  llvm::Function* function = b.GetInsertBlock()->getParent();
  BasicBlock* before = b.GetInsertBlock();
  BasicBlock* inside = BasicBlock::Create(b.getContext(), "lane", function);
  BasicBlock* after = BasicBlock::Create(b.getContext(), "lanes_done", function);
  b.CreateBr(inside);
  b.SetInsertPoint(inside);
  llvm::PHINode* left = b.CreatePHI(bits->getType(), 2);
  Value* lane = b.CreateBinaryIntrinsic(llvm::Intrinsic::cttz, left, b.getTrue());
  body(b.CreateZExtOrTrunc(lane, b.getInt64Ty()));
  Value* next = b.CreateAnd(left, b.CreateSub(left, llvm::ConstantInt::get(bits->getType(), 1)));
  left->addIncoming(bits, before);
  left->addIncoming(next, inside);
  b.CreateCondBr(b.CreateIsNull(next), after, inside);
  b.SetInsertPoint(after);
}

Value* call_marked_lanes(llvm::IRBuilderBase& b, std::string_view name, Value* bits, std::span<const Real> args,
                         Real fast) {
  llvm::Type* type = fast.value()->getType();
  llvm::Type* element = type->getScalarType();
  std::vector<Value*> arrays;
  for (const Real& arg : args) {
    arrays.push_back(lane_array(b, type));
    b.CreateStore(arg.value(), arrays.back());
  }
  Value* results = lane_array(b, type);
  b.CreateStore(fast.value(), results);
  const llvm::FunctionCallee callee = libm_function(b, name, element, args.size());
  emit_lane_loop(b, bits, [&](Value* lane) {
    std::vector<Value*> operands;
    for (Value* array : arrays) operands.push_back(b.CreateLoad(element, b.CreateGEP(element, array, lane)));
    b.CreateStore(b.CreateCall(callee, operands), b.CreateGEP(element, results, lane));
  });
  return b.CreateLoad(type, results);
}

Value* call_scalar(llvm::IRBuilderBase& b, std::string_view name, std::span<const Real> args, Real fast) {
  std::vector<Value*> operands;
  for (const Real& arg : args) operands.push_back(arg.value());
  return b.CreateCall(libm_function(b, name, fast.value()->getType(), args.size()), operands);
}

}  // namespace

Real call_lanes(std::string_view name, Mask slow, std::span<const Real> args, Real fast) {
  llvm::IRBuilderBase& b = fast.emitter().b;
  const auto* vector = llvm::dyn_cast<llvm::FixedVectorType>(fast.value()->getType());
  Value* bits = vector == nullptr ? slow.value() : b.CreateBitCast(slow.value(), b.getIntNTy(vector->getNumElements()));

  llvm::Function* function = b.GetInsertBlock()->getParent();
  BasicBlock* before = b.GetInsertBlock();
  BasicBlock* rare = BasicBlock::Create(b.getContext(), "rare", function);
  BasicBlock* after = BasicBlock::Create(b.getContext(), "common", function);
  b.CreateCondBr(b.CreateIsNotNull(bits), rare, after, llvm::MDBuilder(b.getContext()).createBranchWeights(1, 1 << 20));
  b.SetInsertPoint(rare);
  Value* called = vector == nullptr ? call_scalar(b, name, args, fast) : call_marked_lanes(b, name, bits, args, fast);
  BasicBlock* end_of_rare = b.GetInsertBlock();
  b.CreateBr(after);
  b.SetInsertPoint(after);
  llvm::PHINode* result = b.CreatePHI(fast.value()->getType(), 2);
  result->addIncoming(fast.value(), before);
  result->addIncoming(called, end_of_rare);
  return {fast.emitter(), result};
}

Real call_lanes(std::string_view name, std::span<const Real> args) {
  const Real& first = args.front();
  llvm::IRBuilderBase& b = first.emitter().b;
  const auto* vector = llvm::dyn_cast<llvm::FixedVectorType>(first.value()->getType());
  if (vector == nullptr) return {first.emitter(), call_scalar(b, name, args, first)};
  Value* all = llvm::ConstantInt::getAllOnesValue(b.getIntNTy(vector->getNumElements()));
  return {first.emitter(), call_marked_lanes(b, name, all, args, first)};
}

}  // namespace npugraph::codegen
