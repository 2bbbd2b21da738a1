// SPDX-License-Identifier: Apache-2.0
#include "codegen/matmul_tile.h"

#include <algorithm>

#include "codegen/matmul_element.h"
#include "codegen/row_pointers.h"

namespace npugraph::codegen {
namespace {

using llvm::Align;
using llvm::Value;

constexpr int kUnroll = 4;  // steps of an iteration
constexpr int64_t kStepBytes = 4;

class TileEmitter {
 public:
  TileEmitter(llvm::Function* function, TileKind kind, const TileShape& shape)
      : f_(function),
        b_(llvm::BasicBlock::Create(function->getContext(), "entry", function)),
        kind_(kind),
        shape_(shape),
        vector_(llvm::FixedVectorType::get(b_.getFloatTy(), shape.lanes)) {}

  void emit() {
    const RowPointers rows(b_, f_->getArg(1), f_->getArg(2), shape_.rows);
    rows_ = &rows;
    Value* steps = f_->getArg(3);
    acc_ = f_->getArg(4);
    Values carried{f_->getArg(0)};
    carried.insert(carried.end(), rows.pointers().begin(), rows.pointers().end());
    const Values initial = emit_if(
        b_, b_.CreateICmpNE(f_->getArg(5), b_.getInt64(0)), [&] { return load_acc(); }, [&] { return zeros(); });
    carried.insert(carried.end(), initial.begin(), initial.end());

    Value* whole = b_.CreateAnd(steps, b_.getInt64(-kUnroll));
    carried = emit_loop(b_, b_.getInt64(0), whole, kUnroll, carried,
                        [&](Value* i, const Values& values) { return iteration(i, values, kUnroll); });
    carried = emit_loop(b_, whole, steps, 1, carried,
                        [&](Value*, const Values& values) { return iteration(nullptr, values, 1); });
    store_acc({carried.end() - initial.size(), carried.end()});
    b_.CreateRetVoid();
  }

 private:
  Value* bytes(Value* pointer, Value* offset) { return b_.CreateGEP(b_.getInt8Ty(), pointer, offset); }
  Value* bytes(Value* pointer, int64_t offset) { return b_.CreateConstGEP1_64(b_.getInt8Ty(), pointer, offset); }
  int64_t panel_stride() const { return shape_.columns() * kStepBytes; }

  Values iteration(Value* i, Values values, int steps) {
    Value* panel = values[0];
    const size_t pointers = rows_->pointers().size();
    const RowPointers rows = rows_->at({values.begin() + 1, values.begin() + 1 + pointers});
    Value** acc = values.data() + 1 + pointers;
    if (i != nullptr) prefetch(i);
    for (int s = 0; s < steps; ++s) step(bytes(panel, s * panel_stride()), rows, s * kStepBytes, acc);
    values[0] = bytes(panel, steps * panel_stride());
    const RowPointers next = rows.moved(b_.getInt64(steps * kStepBytes));
    std::copy(next.pointers().begin(), next.pointers().end(), values.begin() + 1);
    return values;
  }

  void step(Value* panel, const RowPointers& rows, int64_t offset, Value** acc) {
    Values columns;
    for (int v = 0; v < shape_.vectors; ++v)
      columns.push_back(
          b_.CreateAlignedLoad(vector_, bytes(panel, v * shape_.lanes * kStepBytes), Align(shape_.lanes * kStepBytes)));
    for (int r = 0; r < shape_.rows; ++r) {
      Value* element = b_.CreateAlignedLoad(b_.getFloatTy(), rows.row(r, offset), Align(2));
      element = b_.CreateVectorSplat(shape_.lanes, element);
      for (int v = 0; v < shape_.vectors; ++v) {
        Value*& sum = acc[r * shape_.vectors + v];
        sum = kind_ == TileKind::kBf16Pairs ? dot_bf16_pairs(b_, element, columns[v], sum)
                                            : multiply_add(b_, element, columns[v], sum, shape_.fma);
      }
    }
  }

  // An iteration is a quarter of 16 steps: it takes a quarter of the rows.
  void prefetch(Value* i) {
    constexpr int kParts = 16 / kUnroll;
    Value* stride = f_->getArg(7);
    Value* part = b_.CreateAnd(b_.CreateLShr(i, 2), b_.getInt64(kParts - 1));
    Value* at = bytes(f_->getArg(6), b_.CreateMul(b_.CreateLShr(i, 4), f_->getArg(8)));
    at = bytes(at, b_.CreateMul(part, stride));
    Value* to_next = b_.CreateShl(stride, 2);
    for (int r = 0; r < shape_.rows; r += kParts) {
      emit_prefetch(b_, at);
      at = bytes(at, to_next);
    }
  }

  Value* acc_at(int a) { return bytes(acc_, a * shape_.lanes * kStepBytes); }
  Values load_acc() {
    Values acc;
    for (int a = 0; a < shape_.rows * shape_.vectors; ++a)
      acc.push_back(b_.CreateAlignedLoad(vector_, acc_at(a), Align(shape_.lanes * kStepBytes)));
    return acc;
  }
  Values zeros() { return Values(shape_.rows * shape_.vectors, llvm::Constant::getNullValue(vector_)); }
  void store_acc(const Values& acc) {
    for (size_t a = 0; a < acc.size(); ++a)
      b_.CreateAlignedStore(acc[a], acc_at(static_cast<int>(a)), Align(shape_.lanes * kStepBytes));
  }

  llvm::Function* f_;
  llvm::IRBuilder<> b_;
  TileKind kind_;
  TileShape shape_;
  llvm::FixedVectorType* vector_;
  const RowPointers* rows_ = nullptr;
  Value* acc_ = nullptr;
};

}  // namespace

// Sums stay in registers, beside the vectors of a step and one broadcast; so many hide the latency of multiply-add.
TileShape tile_shape(const target::Target& target, bool narrow) {
  TileShape shape{.lanes = target.lanes(DType::kF32), .fma = target.fma};
  shape.vectors = narrow ? 1 : 2;
  shape.rows = target.vector_registers >= 32 ? 12 : 6;
  return shape;
}

llvm::FunctionType* tile_type(llvm::LLVMContext& context) {
  llvm::Type* pointer = llvm::PointerType::getUnqual(context);
  llvm::Type* integer = llvm::Type::getInt64Ty(context);
  return llvm::FunctionType::get(llvm::Type::getVoidTy(context),
                                 {pointer, pointer, integer, integer, pointer, integer, pointer, integer, integer},
                                 false);
}

void emit_tile(llvm::Function* function, TileKind kind, const TileShape& shape) {
  TileEmitter(function, kind, shape).emit();
}

}  // namespace npugraph::codegen
