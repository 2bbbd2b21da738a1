// SPDX-License-Identifier: Apache-2.0
#include "codegen/matmul_epilogue.h"

#include "codegen/ir_loop.h"
#include "codegen/matmul_element.h"

namespace npugraph::codegen {
namespace {

using llvm::Value;

class EpilogueEmitter {
 public:
  EpilogueEmitter(llvm::Function* function, const Epilogue& epilogue, DType c)
      : f_(function),
        b_(llvm::BasicBlock::Create(function->getContext(), "entry", function)),
        epilogue_(epilogue),
        c_(c) {}

  void emit(int lanes) {
    Values carried{f_->getArg(0)};
    Values strides{b_.CreateShl(f_->getArg(1), 2)};
    for (size_t i = 0; i <= epilogue_.inputs.size(); ++i) {
      carried.push_back(entry(b_.getPtrTy(), 4, i));
      strides.push_back(entry(b_.getInt64Ty(), 5, i));
    }
    emit_loop(b_, b_.getInt64(0), f_->getArg(2), 1, carried, [&](Value*, const Values& row) {
      emit_row(row, lanes);
      Values next;
      for (size_t i = 0; i < row.size(); ++i) next.push_back(b_.CreateGEP(b_.getInt8Ty(), row[i], strides[i]));
      return next;
    });
    b_.CreateRetVoid();
  }

 private:
  Value* entry(llvm::Type* type, unsigned argument, size_t i) {
    Value* at = b_.CreateConstGEP1_64(b_.getInt64Ty(), f_->getArg(argument), static_cast<int64_t>(i));
    return b_.CreateAlignedLoad(type, at, llvm::Align(8));
  }

  void emit_row(const Values& row, int lanes) {
    Value* columns = f_->getArg(3);
    Value* whole = b_.CreateAnd(columns, b_.getInt64(-lanes));
    emit_loop(b_, b_.getInt64(0), whole, lanes, [&](Value* c) { emit_elements(row, c, lanes); });
    emit_loop(b_, whole, columns, 1, [&](Value* c) { emit_elements(row, c, 1); });
  }

  Value* element(Value* row, Value* c, DType dtype) {
    return b_.CreateGEP(b_.getInt8Ty(), row, b_.CreateMul(c, b_.getInt64(size_of(dtype))));
  }

  void emit_elements(const Values& row, Value* c, int lanes) {
    Value* value = load_as_f32(b_, element(row[0], c, DType::kF32), DType::kF32, lanes);
    Values inputs;
    for (size_t i = 0; i < epilogue_.inputs.size(); ++i) {
      const EpilogueInput& input = epilogue_.inputs[i];
      if (input.along_columns) {
        inputs.push_back(load_as_f32(b_, element(row[i + 1], c, input.dtype), input.dtype, lanes));
      } else {
        Value* one = b_.CreateExtractElement(load_as_f32(b_, row[i + 1], input.dtype, 1), b_.getInt64(0));
        inputs.push_back(b_.CreateVectorSplat(lanes, one));
      }
    }
    if (epilogue_.emit) value = epilogue_.emit(b_, value, inputs);
    store_f32_as(b_, value, element(row.back(), c, c_), c_);
  }

  llvm::Function* f_;
  llvm::IRBuilder<> b_;
  const Epilogue& epilogue_;
  DType c_;
};

}  // namespace

llvm::FunctionType* epilogue_type(llvm::LLVMContext& context) {
  llvm::Type* pointer = llvm::PointerType::getUnqual(context);
  llvm::Type* integer = llvm::Type::getInt64Ty(context);
  return llvm::FunctionType::get(llvm::Type::getVoidTy(context),
                                 {pointer, integer, integer, integer, pointer, pointer}, false);
}

void emit_epilogue(llvm::Function* function, const Epilogue& epilogue, DType c, int lanes) {
  EpilogueEmitter(function, epilogue, c).emit(lanes);
}

}  // namespace npugraph::codegen
